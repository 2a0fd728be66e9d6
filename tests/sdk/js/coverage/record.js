// Loaded before each test file: notes which members of the SDK's public classes the tests use, in
// files of the folder PARTITA_COVERAGE. Members of classes that the package does not export cannot
// be watched.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import * as sdk from "@azure/cosmos";
import { surface } from "./surface.js";

const used = new Set();

function watch(prototype, name, full) {
  const own = Object.getOwnPropertyDescriptor(prototype, name);
  if (!own?.configurable) return;
  for (const kind of ["value", "get"]) {
    const original = own[kind];
    if (typeof original !== "function") continue;
    own[kind] = function (...args) {
      used.add(full);
      return original.apply(this, args);
    };
  }
  Object.defineProperty(prototype, name, own);
}

for (const full of surface()) {
  const [type, name] = full.split(".");
  if (sdk[type]?.prototype) watch(sdk[type].prototype, name, full);
}

process.on("exit", () => {
  if (used.size > 0) {
    writeFileSync(join(process.env.PARTITA_COVERAGE, `${process.pid}`), [...used].join("\n"));
  }
});
