// Run after all tests: fails when a public member of the SDK was neither used by a test nor is
// listed in untested.json with the reason, or when one is listed that a test uses.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { surface } from "./surface.js";

const folder = process.env.PARTITA_COVERAGE;
const noted = (file) => readFileSync(join(folder, file), "utf8").split("\n");
const used = new Set(readdirSync(folder).flatMap(noted));
const untested = JSON.parse(readFileSync(new URL("untested.json", import.meta.url), "utf8"));
const all = surface();

const problems = [];
for (const name of all) {
  if (!used.has(name) && !untested[name]) problems.push(`${name}: no test uses it`);
}
for (const name of Object.keys(untested)) {
  if (!all.has(name)) problems.push(`${name}: listed, but not there`);
  if (used.has(name)) problems.push(`${name}: listed, but used`);
}
problems.forEach((problem) => console.log(problem));
const count = [...all].filter((name) => used.has(name)).length;
console.log(`The tests use ${count} of ${all.size} public members of @azure/cosmos.`);
process.exit(problems.length > 0 ? 1 : 0);
