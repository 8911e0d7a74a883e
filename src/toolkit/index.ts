export * as SkillToolkit from "./SkillToolkit.js"
