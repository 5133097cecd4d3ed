// Drives the published client of rooms. Every line on standard input is a command in JSON, every line
// on standard output its answer: {"ok": ...} or {"error": "..."}.
//
// The packages are in the folder that the first argument names.
const { createRequire } = require("node:module");
const path = require("node:path");
const readline = require("node:readline");
const { isDeepStrictEqual } = require("node:util");

const packages = createRequire(path.join(process.argv[2], "package.json"));
const { decode, MessageType } = packages("loro-protocol");
const roomErrors = [];

// Node 20 has no WebSocket of its own. The client forgets who listens to a room before it tells them
// that they are out of it, so what it was told is noted here.
globalThis.WebSocket = class extends packages("ws").WebSocket {
  constructor(...args) {
    super(...args);
    this.on("message", (data, isBinary) => {
      const message = isBinary ? decode(new Uint8Array(data)) : {};
      if (message.type === MessageType.RoomError) roomErrors.push([message.roomId, message.code]);
    });
  }
};
const { LoroDoc, EphemeralStore } = packages("loro-crdt");
const { LoroWebsocketClient } = packages("loro-websocket");
const { LoroAdaptor, LoroEphemeralAdaptor, LoroPersistentStoreAdaptor } = packages("loro-adaptors/loro");

const WAIT_MS_MAX = 20000;
let client;
const docs = new Map();
const presence = new Map();
const joined = new Map();
const statuses = {};
const refused = [];

// Members of maps come in any order.
const same = (one, other) => isDeepStrictEqual(one, other);

async function until(what, look) {
  const end = Date.now() + WAIT_MS_MAX;
  while (Date.now() < end) {
    const found = look();
    if (found !== undefined && found !== false) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`waited in vain for ${what}`);
}

const commands = {
  async connect({ url }) {
    client = new LoroWebsocketClient({ url, onError: () => {} });
    await client.waitConnected();
  },
  async ping() {
    await client.ping(5000);
  },
  // `tokens` are used one after the other, the last one for ever.
  async join({ room, tokens }) {
    const doc = docs.get(room) ?? new LoroDoc();
    docs.set(room, doc);
    const adaptor = new LoroAdaptor(doc, {
      onUpdateError: (_updates, code) => refused.push(code),
    });
    let used = 0;
    const auth = () => new TextEncoder().encode(tokens[Math.min(used++, tokens.length - 1)]);
    statuses[room] = [];
    const onStatusChange = (status) => statuses[room].push(status);
    const made = await client.join({ roomId: room, crdtAdaptor: adaptor, auth, onStatusChange });
    joined.set(room, made);
    await Promise.race([
      made.waitForReachingServerVersion(),
      new Promise((_, reject) => setTimeout(() => reject(new Error("never reached the server's version")), WAIT_MS_MAX)),
    ]);
    return doc.toJSON();
  },
  async leave({ room }) {
    await joined.get(room).leave();
  },
  async set({ room, map, key, value }) {
    const doc = docs.get(room);
    doc.getMap(map).set(key, value);
    doc.commit();
  },
  // Many small changes at once, each an update of its own.
  async burst({ room, key, count }) {
    const doc = docs.get(room);
    for (let number = 1; number <= count; number++) {
      doc.getMap("nodes").set(key, number);
      doc.commit();
    }
  },
  // A document that does not fit into a frame.
  async fill({ room, key, bytes }) {
    const doc = docs.get(room);
    const letters = "abcdefghijklmnopqrstuvwxyz0123456789";
    let text = "";
    let seed = 7;
    while (text.length < bytes) {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      text += letters[seed % letters.length];
    }
    doc.getMap("nodes").set(key, text);
    doc.commit();
    return text.length;
  },
  async length({ room, key }) {
    return await until(`${key} of ${room}`, () => {
      const text = docs.get(room).getMap("nodes").get(key);
      return typeof text === "string" ? text.length : undefined;
    });
  },
  async wait({ room, map, key, value }) {
    await until(`${map}.${key} of ${room} to be ${JSON.stringify(value)}`, () =>
      same(docs.get(room).toJSON()[map]?.[key], value));
  },
  async wait_at({ room, path, value }) {
    await until(`${path.join(".")} of ${room} to be ${JSON.stringify(value)}`, () =>
      same(path.reduce((found, name) => found?.[name], docs.get(room).toJSON()), value));
  },
  async json({ room }) {
    return docs.get(room).toJSON();
  },
  async edit_text({ room, text }) {
    const doc = docs.get(room);
    doc.getText("notes").insert(0, text);
    doc.commit();
  },
  async join_presence({ room, token }) {
    const store = new EphemeralStore(60000);
    presence.set(room, store);
    const crdtAdaptor = new LoroEphemeralAdaptor(store);
    await client.join({ roomId: room, crdtAdaptor, auth: new TextEncoder().encode(token) });
  },
  // Presence that outlives those it is about, `%EPS`; it is spoken of as "kept ROOM".
  async join_kept({ room, token }) {
    const store = new EphemeralStore(3600000);
    presence.set(`kept ${room}`, store);
    const crdtAdaptor = new LoroPersistentStoreAdaptor(store);
    await client.join({ roomId: room, crdtAdaptor, auth: new TextEncoder().encode(token) });
  },
  async say({ room, key, value }) {
    presence.get(room).set(key, value);
  },
  async unsay({ room, key }) {
    // Of two words in one millisecond the first counts.
    await new Promise((resolve) => setTimeout(resolve, 2));
    presence.get(room).delete(key);
  },
  async hear({ room, key, value }) {
    await until(`${key} in ${room}`, () => same(presence.get(room).get(key) ?? null, value));
  },
  // The network is gone, and the client knows it.
  async offline() {
    client.close();
  },
  async online() {
    await client.connect({ resetBackoff: true });
    await client.waitConnected();
  },
  async connected() {
    await until("the connection", () => client.getStatus() === "connected");
  },
  async refused() {
    return await until("a refusal", () => (refused.length > 0 ? refused : undefined));
  },
  async put_out({ room, code }) {
    await until(`the room error ${code} of ${room}`, () =>
      roomErrors.some((error) => same(error, [room, code])));
  },
  async status_seen({ room, status }) {
    await until(`${status} of ${room}`, () => statuses[room].includes(status));
    return statuses[room];
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { command, ...args } = JSON.parse(line);
    let answer;
    try {
      answer = { ok: (await commands[command](args)) ?? null };
    } catch (error) {
      answer = { error: String(error?.message ?? error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

// What the client prints is not an answer.
console.log = console.warn = console.error = (...words) => process.stderr.write(words.join(" ") + "\n");
process.on("unhandledRejection", (error) => process.stderr.write(`unhandled: ${error}\n`));
main();
