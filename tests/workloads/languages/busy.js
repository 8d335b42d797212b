// Functions by the interpreter and the compilers, regular expressions, sorting, and WebAssembly.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
class Shape { area() { return 0; } }
class Circle extends Shape { constructor(r) { super(); this.r = r; } area() { return Math.PI * this.r * this.r; } }
function shapes(n) { const list = []; for (let i = 0; i < n; i++) list.push(new Circle(i)); return list.map(s => s.area()).reduce((a, b) => a + b, 0); }
function text(n) { let t = ''; for (let i = 0; i < n; i++) t += i.toString(36); return t.replace(/[a-f]+/g, m => m.toUpperCase()).length + JSON.stringify({t}).length; }
function sorting(n) { const a = []; for (let i = 0; i < n; i++) a.push((i * 7919) % 10007); a.sort((x, y) => x - y); return a[n >> 1]; }
// (func $fib (export "fib") (param i32) (result i32) ...)
const bytes = new Uint8Array([0,97,115,109,1,0,0,0,1,6,1,96,1,127,1,127,3,2,1,0,7,7,1,3,102,105,98,0,0,10,30,1,28,0,32,0,65,2,72,4,127,32,0,5,32,0,65,1,107,16,0,32,0,65,2,107,16,0,106,11,11]);
const wasm = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.fib;
const end = process.cpuUsage().user + 1e6 * Number(process.argv[2]);
let sum = 0;
while (process.cpuUsage().user < end) sum += fib(20) + shapes(3000) + text(2000) + sorting(3000) + wasm(22);
console.log('done', sum !== 0);
