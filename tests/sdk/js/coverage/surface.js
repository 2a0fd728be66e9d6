// The public surface of @azure/cosmos: the methods and properties of its client classes, read from
// the type declarations that the package brings. What these call internal or hidden is left out.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.resolve("@azure/cosmos")));

// Everything that a CosmosClient leads to, and the iterators that it returns.
function declarations() {
  const inside = readdirSync(join(root, "client"), { recursive: true });
  const clients = inside.map((file) => join("client", file));
  const files = [...clients, "CosmosClient.d.ts", "queryIterator.d.ts", "ChangeFeedIterator.d.ts"];
  return files.filter((file) => file.endsWith(".d.ts"));
}

// Comments that hide what follows them become a mark, all others nothing.
function marked(text) {
  const mark = (_, comment) => (/@(hidden|internal)\b/.test(comment) ? "/*hidden*/" : "");
  return text.replace(/\/\*\*(.*?)\*\//gs, mark);
}

const MEMBER = /^ {4}(?!private |protected |readonly |static |constructor\b)(?:get )?(\w+)(?:<.*?>)?\(/gm;
const CLASS = /(\/\*hidden\*\/\s*)?export declare class (\w+)[^{]*\{(.*?)\n\}/gs;

function members(body) {
  const names = new Set();
  for (const found of body.matchAll(MEMBER)) {
    if (!body.slice(0, found.index).trimEnd().endsWith("/*hidden*/")) names.add(found[1]);
  }
  return names;
}

// `Class.member` for each.
export function surface() {
  const names = new Set();
  for (const file of declarations()) {
    const text = marked(readFileSync(join(root, file), "utf8"));
    for (const found of text.matchAll(CLASS)) {
      if (found[1]) continue;
      for (const member of members(found[3])) names.add(`${found[2]}.${member}`);
    }
  }
  return names;
}
