'use strict';
// Loaded by Node before the program of a capture or a replay, by NODE_OPTIONS: what the file for
// Python beside it does, for Node.

const crypto = require('node:crypto');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');

// One capture within another has this file twice.
const mark = Symbol.for('runwright.preload');
if (globalThis[mark]) {
  return;
}
globalThis[mark] = true;

const folder = process.env.RUNWRIGHT_PRELOAD || '';
// Bytes that a process may write.
let left = 512 << 10;

// The values of each site in a file of lines.
function recorded(file) {
  const names = new Map();
  const values = new Map();
  let text = '';
  try {
    text = fs.readFileSync(file, 'utf8');
  } catch {
    return values;
  }
  for (const line of text.split('\n')) {
    const [word, second] = line.split(' ', 2);
    if (word === 'site') {
      const name = line.slice(word.length + second.length + 2);
      names.set(second, name);
      values.set(name, []);
    } else if (names.has(word)) {
      values.get(names.get(word)).push(second);
    }
  }
  return values;
}

// A number of 32 bits for a text.
function number(text) {
  let found = 0x811c9dc5;
  for (const byte of Buffer.from(text)) {
    found = Math.imul(found ^ byte, 0x01000193) >>> 0;
  }
  return found.toString(16).padStart(8, '0');
}

function claim() {
  const typed = process.argv.slice(1).concat(process.execArgv);
  const { isMainThread } = require('node:worker_threads');
  const base = typed.map((part) => path.basename(part)).join('\0');
  const word = `node-${number(base)}${isMainThread ? '' : 'w'}`;
  for (let count = 0; count < 1000; count += 1) {
    const name = `${word}.${count}`;
    try {
      const made = path.join(folder, 'made', name);
      const file = fs.openSync(made, 'ax', 0o600);
      return { file, begun: recorded(path.join(folder, 'recorded', name)) };
    } catch (error) {
      // Nothing is recorded where the folder cannot be written.
      if (error.code !== 'EEXIST') {
        break;
      }
    }
  }
  return { file: null, begun: new Map() };
}

const { file, begun } = claim();
const places = new Map();
const shifts = new Map();
const realDate = Date;
const realNow = Date.now;

function write(line) {
  const data = Buffer.from(`${line}\n`);
  if (file !== null && data.length <= left) {
    left -= data.length;
    try {
      fs.writeSync(file, data);
    } catch {
      left = 0;
    }
  }
}

// The file and the function that called, and whether they are a library's.
function caller(below) {
  const { prepareStackTrace, stackTraceLimit } = Error;
  Error.stackTraceLimit = 1;
  Error.prepareStackTrace = (_, frames) => frames[0];
  const holder = {};
  Error.captureStackTrace(holder, below);
  const frame = holder.stack;
  Error.prepareStackTrace = prepareStackTrace;
  Error.stackTraceLimit = stackTraceLimit;
  const name = frame?.getFileName() ?? '';
  return {
    place: `${path.basename(name)}:${frame?.getFunctionName() ?? ''}`.replaceAll('\n', ' '),
    isLibrary: name === '' || name.startsWith('node:') || name.includes('node_modules'),
  };
}

// What was recorded for a site, else what is real. A recorded number moves those after it.
function next(kind, where, real) {
  const site = `${kind} ${where}`;
  if (!places.has(site)) {
    places.set(site, { number: places.size, values: begun.get(site) ?? [], used: 0 });
    write(`site ${places.get(site).number} ${site}`);
  }
  const place = places.get(site);
  let value = real();
  const isNumber = typeof value === 'number';
  const given = place.values[place.used];
  place.used += 1;
  // A value that redaction changed cannot be read; it counts as not recorded.
  if (given !== undefined && !(isNumber && Number.isNaN(Number(given)))) {
    if (isNumber) {
      shifts.set(kind, Number(given) - value);
    }
    value = isNumber ? Number(given) : given;
  } else if (isNumber) {
    value += shifts.get(kind) ?? 0;
  }
  write(`${place.number} ${value}`);
  return value;
}

const clock = (below) => next('clock', caller(below).place, realNow);

function patchDate() {
  const now = { now() { return clock(now); } }.now;
  realDate.now = now;
  globalThis.Date = new Proxy(realDate, {
    construct(target, args, made) {
      const given = args.length === 0 ? [clock(this.construct)] : args;
      return Reflect.construct(target, given, made === globalThis.Date ? target : made);
    },
    apply() {
      return new realDate(clock(this.apply)).toString();
    },
  });
  realDate.prototype.constructor = globalThis.Date;
}

function patchElapsed() {
  const real = performance.now.bind(performance);
  const now = { now() {
    const { place, isLibrary } = caller(now);
    return isLibrary ? real() : next('performance', place, real);
  } }.now;
  Object.defineProperty(performance, 'now', { value: now, configurable: true, writable: true });
}

function patchHrtime() {
  const real = process.hrtime;
  const read = (below) => {
    const { place, isLibrary } = caller(below);
    return isLibrary ? real.bigint() : BigInt(next('hrtime', place, () => Number(real.bigint())));
  };
  const hrtime = { hrtime(before) {
    if (before !== undefined) {
      // It throws where this is not a time.
      real(before);
    }
    const [seconds, nanos] = before ?? [0, 0];
    const since = BigInt(seconds) * 1_000_000_000n + BigInt(nanos);
    const elapsed = read(hrtime) - since;
    return [Number(elapsed / 1_000_000_000n), Number(elapsed % 1_000_000_000n)];
  } }.hrtime;
  hrtime.bigint = { bigint() { return read(hrtime.bigint); } }.bigint;
  process.hrtime = hrtime;
}

// One generator for the process (sfc32), begun by what was recorded.
function patchRandom() {
  const begin = () => crypto.randomBytes(16).toString('hex');
  const words = Buffer.from(next('seed', 'random', begin), 'hex');
  let [a, b, c, d] = [0, 4, 8, 12].map((at) => words.readUInt32LE(at));
  const word = () => {
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  for (let count = 0; count < 16; count += 1) {
    word();
  }
  Math.random = { random() { return (word() * 2 ** 21 + (word() >>> 11)) / 2 ** 53; } }.random;
}

function patchUuid() {
  const real = crypto.randomUUID;
  const randomUUID = { randomUUID(options) {
    return next('uuid', caller(randomUUID).place, () => real(options));
  } }.randomUUID;
  crypto.randomUUID = randomUUID;
  Object.getPrototypeOf(crypto.webcrypto).randomUUID = randomUUID;
}

// Random bytes may be a key and are not kept; who drew them is told.
function patchBytes() {
  const told = new Set();
  const tell = (below) => {
    const { place, isLibrary } = caller(below);
    if (!isLibrary && !told.has(place)) {
      told.add(place);
      write(`secret ${place}`);
    }
  };
  for (const name of ['randomBytes', 'randomInt']) {
    const real = crypto[name];
    const answer = { [name](...args) { tell(answer); return real.apply(this, args); } }[name];
    crypto[name] = answer;
  }
}

// Gives the variables of the recorder to processes to which the program does not give them.
function patchChildren() {
  const isOwn = /^(RUNWRIGHT_PRELOAD|RUNWRIGHT_CAPTURE_URL|PYTHONPATH|NODE_OPTIONS|PYTHONHASHSEED|(HTTPS?|ALL)_PROXY)$/i;
  const own = Object.entries(process.env).filter(([name]) => isOwn.test(name));
  const withOwn = (env) => {
    if ('RUNWRIGHT_PRELOAD' in (env ?? process.env)) {
      return env;
    }
    return { ...Object.fromEntries(own), ...(env ?? process.env) };
  };
  const child = require('node:child_process');
  const real = child.ChildProcess.prototype.spawn;
  child.ChildProcess.prototype.spawn = function spawn(options) {
    const pairs = options?.envPairs;
    if (Array.isArray(pairs) && !pairs.some((pair) => pair.startsWith('RUNWRIGHT_PRELOAD='))) {
      const names = new Set(pairs.map((pair) => pair.split('=')[0]));
      pairs.push(...own.filter(([name]) => !names.has(name)).map((pair) => pair.join('=')));
    }
    return real.call(this, options);
  };
  for (const name of ['spawnSync', 'execFileSync', 'execSync']) {
    const sync = child[name];
    child[name] = { [name](...args) {
      const last = args.length - 1;
      const isOptions = last > 0 && args[last] !== null && typeof args[last] === 'object' && !Array.isArray(args[last]);
      const options = isOptions ? args.pop() : {};
      return sync.apply(this, [...args, { ...options, env: withOwn(options.env) }]);
    } }[name];
  }
}

// Connects to the proxy and tells it first which address was meant.
function patchSocket() {
  const [, , proxy, ...rest] = (process.env.RUNWRIGHT_CAPTURE_URL || '').split('/');
  const [host, port] = proxy.split(':');
  const real = net.Socket.prototype.connect;
  const { TLSSocket } = require('node:tls');
  net.Socket.prototype.connect = function connect(...args) {
    const [options, listener] = Array.isArray(args[0]) ? args[0] : net._normalizeArgs(args);
    if (options.path || this instanceof TLSSocket || Number(options.port) === Number(port)) {
      return real.apply(this, args);
    }
    const name = options.host || 'localhost';
    const meant = `${net.isIPv6(name) ? `[${name}]` : name}:${options.port}`;
    const { lookup, family, localAddress, localPort, ...others } = options;
    real.call(this, { ...others, host, port: Number(port) }, listener);
    this.write(`\x01${rest.join('/')} ${meant}\n`);
    return this;
  };
  patchChildren();
}

const patches = [patchDate, patchElapsed, patchHrtime, patchRandom, patchUuid, patchBytes];
if (fs.existsSync(path.join(folder, 'redirect'))) {
  patches.push(patchSocket);
}
for (const patch of patches) {
  try {
    patch();
  } catch (error) {
    write(`problem ${patch.name}: ${error.message}`);
  }
}
require('node:module').syncBuiltinESMExports();
