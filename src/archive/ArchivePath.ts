/** Whether `path` is a safe relative path (contract, Archive). */
export declare const isSafe: (path: string) => boolean
/** Whether `name` is a safe path with one component. */
export declare const isSafeComponent: (name: string) => boolean
/** Order of two well-formed strings by their UTF-8 bytes. */
export declare const compare: (left: string, right: string) => -1 | 0 | 1
