/** Readings that must not overtake each other. */

/**
 * Returns a function that runs `read`. Only one runs at a time, so that a late answer of an earlier one cannot replace
 * what a later one has read; calls that come meanwhile lead to one more.
 * @param {() => Promise<void>} read
 * @returns {() => Promise<void>} Ends when everything that was asked for until then was read.
 */
export function oneByOne(read) {
  let isStale = false;
  let running = null;
  const run = async () => {
    try {
      while (isStale) {
        isStale = false;
        await read();
      }
    } finally {
      // At once, so that no call comes between the last look and the end.
      running = null;
    }
  };
  return () => {
    isStale = true;
    running ??= run();
    return running;
  };
}
