// Node's ws with Redis, as one would write it: every message of a channel goes to every client.
//
// usage: node server.js REDIS_URL CHANNEL; prints the address it listens on.
"use strict";

const { createClient } = require("redis");
const { WebSocketServer, WebSocket } = require("ws");

async function main([url, channel]) {
  const listening = new Set();
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, path: "/ws", backlog: 1024 });
  server.on("connection", (socket) => {
    socket.on("message", () => {
      listening.add(socket);
      socket.send('{"type":"subscribed"}');
    });
    socket.on("close", () => listening.delete(socket));
    socket.on("error", () => listening.delete(socket));
  });
  const redis = createClient({ url });
  await redis.connect();
  // As a buffer, so that it is not encoded again for every client.
  await redis.subscribe(
    channel,
    (message) => {
      for (const socket of listening) {
        if (socket.readyState === WebSocket.OPEN) socket.send(message, { binary: false });
      }
    },
    true,
  );
  const { address, port } = server.address();
  console.log(`${address}:${port}`);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
