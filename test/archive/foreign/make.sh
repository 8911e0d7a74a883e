#!/bin/sh
# Makes the archives in this directory again, in $1, with the tools on the PATH and yazl, jszip and archiver installed in
# $1/node_modules. README.md says which versions made the ones kept here.
set -eu
export LC_ALL=C.UTF-8
cd "$1"
rm -rf snapshot ./*.zip
mkdir -p snapshot/greeter/assets snapshot/greeter/docs
cd snapshot

printf '%s\n' '---' 'name: greeter' 'description: Greets people in their language' '---' '' '# Greeter' '' \
  'Say hello in the language of the person you speak with. Be brief, be friendly, be brief again.' > greeter/SKILL.md
printf '%s\n' 'Grüß Gott' 'Guten Tag' 'Guten Abend' 'Gute Nacht' > 'greeter/docs/grüße.md'
printf '\211PNG\r\n\032\n\377\376\000\001' > greeter/assets/icon.png

node --input-type=module -e '
import { createHash } from "node:crypto"
import { readFileSync, writeFileSync } from "node:fs"
const files = ["SKILL.md", "assets/icon.png", "docs/grüße.md"].map((path) => {
  const bytes = readFileSync(`greeter/${path}`)
  return { path, size: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") }
})
const skills = [{ name: "greeter", description: "Greets people in their language", files }]
writeFileSync("manifest.json", `${JSON.stringify({ schemaVersion: 1, revision: "foreign", skills }, undefined, 2)}\n`)
'

zip -q -r ../info-zip.zip manifest.json greeter
zip -q -r - manifest.json greeter | cat > ../info-zip-streamed.zip
zip -q -r -fz ../info-zip-zip64.zip manifest.json greeter
python3 -m zipfile -c ../python-zipfile.zip manifest.json greeter
python3 -c '
import pathlib, sys, zipfile
class Pipe:
    def write(self, data): return sys.stdout.buffer.write(data)
    def flush(self): sys.stdout.buffer.flush()
with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:
    for path in sorted(pathlib.Path(".").rglob("*")):
        if path.is_file():
            info = zipfile.ZipInfo.from_file(path)
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as entry: entry.write(path.read_bytes())
' > ../python-zipfile-streamed.zip
7zz a -tzip -bso0 -bsp0 ../7z.zip manifest.json greeter
bsdtar --format=zip -cf ../bsdtar.zip manifest.json greeter
jar --create --no-manifest --file ../jar.zip manifest.json greeter

files='manifest.json greeter/SKILL.md greeter/assets/icon.png greeter/docs/grüße.md'
node --input-type=module -e '
import { createWriteStream } from "node:fs"
import { createRequire } from "node:module"
const { ZipFile } = createRequire(process.cwd() + "/")("yazl")
for (const [output, options] of [["../yazl.zip", {}], ["../yazl-zip64.zip", { forceZip64Format: true }]]) {
  const archive = new ZipFile()
  archive.addEmptyDirectory("greeter/")
  for (const path of process.argv.slice(1)) archive.addFile(path, path, options)
  archive.end(options)
  archive.outputStream.pipe(createWriteStream(output))
}
' $files
node --input-type=module -e '
import { readFileSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
const JSZip = createRequire(process.cwd() + "/")("jszip")
const archive = new JSZip()
for (const path of process.argv.slice(1)) archive.file(path, readFileSync(path))
writeFileSync("../jszip.zip", await archive.generateAsync({ type: "nodebuffer", compression: "DEFLATE" }))
writeFileSync("../jszip-streamed.zip", await archive.generateAsync({ type: "nodebuffer", streamFiles: true, platform: "UNIX" }))
' $files
node --input-type=module -e '
import { createWriteStream } from "node:fs"
import { ZipArchive } from "archiver"
const archive = new ZipArchive({ zlib: { level: 9 } })
archive.pipe(createWriteStream("../archiver.zip"))
archive.file("manifest.json", { name: "manifest.json" })
archive.directory("greeter", "greeter")
await archive.finalize()
'
