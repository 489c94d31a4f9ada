import { Redlock } from './redlock.js';

export * from './redlock.js';
export default Redlock;
