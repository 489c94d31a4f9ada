// The servers and the user of a client of ioredis or of node-redis. Read from its options, so neither library is needed here.
// An option that cannot be taken over is an error, and never another server.
'use strict';

const { Configuration } = require('./errors.js');

function refuse(why) {
  throw new Configuration(`the client's settings cannot be used: ${why}`);
}

const part = text => encodeURIComponent(text ?? '');

function address({ host = '127.0.0.1', port = 6379, path }, { user, password, db, tls }) {
  if (path) {
    const login = `${user ? `&user=${part(user)}` : ''}${password ? `&pass=${part(password)}` : ''}`;
    return `redis+unix://${part(path).replaceAll('%2F', '/')}?db=${db ?? 0}${login}`;
  }
  const login = user || password ? `${part(user)}${password ? `:${part(password)}` : ''}@` : '';
  return `redis${tls ? 's' : ''}://${login}${host.includes(':') ? `[${host}]` : host}:${port}/${db ?? 0}`;
}

function certificates({ ca, cert, key, rejectUnauthorized }) {
  if (rejectUnauthorized === false) refuse('a server whose certificate is not checked is not connected to');
  return { ca, cert, key };
}

function ofIoredis({ isCluster, startupNodes, options }) {
  const own = isCluster ? { ...options.redisOptions, db: 0 } : options;
  const access = { user: own.username ?? undefined, password: own.password ?? undefined, db: own.db, tls: !!own.tls };
  const place = {};
  if (isCluster) {
    const of = node => (typeof node === 'object' ? address(node, access) : address({ port: node }, access));
    place.cluster = startupNodes.map(node => (typeof node === 'string' ? node : of(node)));
  } else if (own.sentinels) {
    const login = { user: own.sentinelUsername, password: own.sentinelPassword, tls: own.enableTLSForSentinelMode };
    const sentinels = own.sentinels.map(node => address({ port: 26379, ...node }, login));
    Object.assign(place, { ...access, sentinels, master: own.name });
  } else {
    place.server = address(own, access);
  }
  return { place, certificates: certificates(Object(own.tls)) };
}

function ofNodeRedis({ url, socket = {}, username: user, password, database: db, credentialsProvider }) {
  if (credentialsProvider && !user && !password) refuse('its password comes from a function');
  const server = url && !user && !password ? url : address(socket, { user, password, db, tls: socket.tls });
  return { place: { server }, certificates: certificates(socket) };
}

function placeOf(client) {
  const { rootNodes, defaults } = client?._self?._options ?? {};
  if (rootNodes) {
    const nodes = rootNodes.map(node => ofNodeRedis({ ...defaults, ...node }));
    return { place: { cluster: nodes.map(({ place }) => place.server) }, certificates: nodes[0].certificates };
  }
  if (client?.isCluster || typeof client?.options?.lazyConnect === 'boolean') return ofIoredis(client);
  if (client?.options?.socket) return ofNodeRedis(client.options);
  return refuse('it is neither a client nor a cluster of ioredis or node-redis; see connect and connectToSentinels');
}

module.exports = { placeOf };
