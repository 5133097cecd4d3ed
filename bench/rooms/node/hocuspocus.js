// Hocuspocus with its database extension on PostgreSQL, as its documentation shows it: for comparison.
//
// usage: node hocuspocus.js serve POSTGRES_URL               prints the address it listens on
//        node hocuspocus.js fill POSTGRES_URL PREFIX COUNT NODES
//                                                            stores so many documents with so many nodes each
//        node hocuspocus.js read POSTGRES_URL                prints what each stored document says of clients
"use strict";

const { Server } = require("@hocuspocus/server");
const { Database } = require("@hocuspocus/extension-database");
const { Pool } = require("pg");
const Y = require("yjs");

const TABLE = "CREATE TABLE IF NOT EXISTS documents (name text PRIMARY KEY, data bytea NOT NULL)";
const PUT =
  "INSERT INTO documents (name, data) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET data = excluded.data";

async function serve(pool) {
  const database = new Database({
    fetch: async ({ documentName }) => {
      const found = await pool.query("SELECT data FROM documents WHERE name = $1", [documentName]);
      return found.rows[0]?.data ?? null;
    },
    store: async ({ documentName, state }) => {
      await pool.query(PUT, [documentName, state]);
    },
  });
  const server = new Server({ address: "127.0.0.1", port: 0, quiet: true, extensions: [database] });
  await server.listen();
  console.log(`127.0.0.1:${server.httpServer.address().port}`);
}

// As in `bench/rooms/src/documents.rs`.
function word(number, salt) {
  let letters = "";
  for (let place = salt; place < salt + 4; place++) {
    const part = Math.imul(number * 8 + place, 2654435761) >>> 0;
    letters += ((part ^ (part >>> 15)) >>> 0).toString(16).padStart(8, "0");
  }
  return letters;
}

// The same nodes as `bench/rooms/src/documents.rs` makes.
function filled(nodes) {
  const doc = new Y.Doc();
  doc.transact(() => {
    const map = doc.getMap("nodes");
    for (let number = 0; number < nodes; number++) {
      const node = new Y.Map();
      const fields = {
        id: `n${number}`, type: "image", x: number * 10, y: number * 7,
        label: `node ${number}`, status: "completed",
        src: `/results/${word(number, 0)}.png`, prompt: `a cat on a roof ${word(number, 4)}`,
      };
      for (const [name, value] of Object.entries(fields)) node.set(name, value);
      map.set(`n${number}`, node);
    }
  });
  return Buffer.from(Y.encodeStateAsUpdate(doc));
}

async function fill(pool, prefix, count, nodes) {
  const state = filled(Number(nodes));
  for (let number = 0; number < Number(count); number++) await pool.query(PUT, [`${prefix}${number}`, state]);
  console.log(state.length);
}

async function read(pool) {
  const found = await pool.query("SELECT name, data FROM documents");
  const said = {};
  for (const { name, data } of found.rows) {
    const doc = new Y.Doc();
    Y.applyUpdate(doc, data);
    said[name] = doc.getMap("nodes").toJSON();
  }
  console.log(JSON.stringify(said));
}

async function main([mode, url, ...rest]) {
  const pool = new Pool({ connectionString: url, max: 10 });
  await pool.query(TABLE);
  if (mode === "serve") return serve(pool);
  if (mode === "fill") await fill(pool, ...rest);
  else if (mode === "read") await read(pool);
  else throw new Error("serve, fill or read");
  await pool.end();
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
