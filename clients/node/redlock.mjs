// For `import Redlock from`: what CommonJS exports by the name `default` would be one level too deep.
import { Redlock } from './redlock.js';

export { Lock, Redlock, ResourceLockedError, ExecutionError } from './redlock.js';
export default Redlock;
