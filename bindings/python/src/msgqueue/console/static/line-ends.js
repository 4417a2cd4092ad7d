/** Line ends: a field of the browser has "\n" only, and what nobody touched must be saved as it was. */

/** Changed lines up to which the lines that stayed are found wherever they are. */
const MOST_CHANGES = 1_000;

/**
 * Returns an edited text with the line ends of the text that it was made from. A new line gets those of its neighbour.
 * @param {string} original With any line ends: "\r\n", "\r" and "\n", also mixed.
 * @param {string} edited With "\n".
 * @returns {string}
 */
export function withLineEndsOf(original, edited) {
  const [lines, ends] = split(original);
  if (lines.join("\n") === edited) return original;
  const kinds = new Set(ends.slice(0, -1));
  const texts = edited.split("\n");
  if (kinds.size <= 1) return texts.join([...kinds][0] ?? "\n");
  const result = apart(texts, edgesOf(lines, ends, texts));
  return texts.map((text, index) => (index === texts.length - 1 ? text : text + result[index])).join("");
}

/** The lines of a text, and their ends; that of the last one is "". */
function split(text) {
  const parts = text.split(/(\r\n|\r|\n)/);
  return [parts.filter((_, index) => index % 2 === 0), [...parts.filter((_, index) => index % 2 === 1), ""]];
}

/** The ends, so that no "\r" and "\n" with an empty line between them become one end. An end that was kept stays, if one was not. */
function apart(texts, { result, kept }) {
  for (let index = 1; index < texts.length - 1; index += 1) {
    if (texts[index] !== "" || result[index] !== "\n" || result[index - 1] !== "\r") continue;
    if (kept.has(index) && !kept.has(index - 1)) result[index - 1] = "\r\n";
    else result[index] = "\r";
  }
  return result;
}

/** The end of each edited line, and the lines whose end was kept. */
function edgesOf(lines, ends, texts) {
  const result = [];
  const kept = new Set();
  let [from, at] = [0, 0];
  for (const [line, text] of [...matches(lines, texts), [lines.length, texts.length]]) {
    // Between two lines that stayed: the changed lines, compared from behind, so that a line that was divided keeps
    // its end.
    for (; at < text; at += 1) result.push(ends[Math.max(line - (text - at), from)] || ends[from - 1]);
    if (text < texts.length) {
      if (ends[line]) kept.add(text);
      result.push(ends[line]);
    }
    [from, at] = [line + 1, text + 1];
  }
  const usual = ends.find((end) => end !== "");
  return { result: result.map((end, index) => end || result[index - 1] || usual), kept };
}

/** Pairs of equal lines in the order of both: the numbers in the original and in the edited text. */
function matches(lines, texts) {
  let first = 0;
  while (first < lines.length && first < texts.length && lines[first] === texts[first]) first += 1;
  let [end, stop] = [lines.length, texts.length];
  while (end > first && stop > first && lines[end - 1] === texts[stop - 1]) [end, stop] = [end - 1, stop - 1];
  const pairs = [];
  for (let index = 0; index < first; index += 1) pairs.push([index, index]);
  for (const [one, other] of common(lines.slice(first, end), texts.slice(first, stop))) {
    pairs.push([one + first, other + first]);
  }
  for (let index = end; index < lines.length; index += 1) pairs.push([index, stop + index - end]);
  return pairs;
}

/** The longest common part of two lists, by the algorithm of Myers; none if too much differs. */
function common(one, other) {
  const middle = MOST_CHANGES + 1;
  const reach = new Int32Array(2 * middle + 1);
  const steps = [];
  for (let changes = 0; changes <= MOST_CHANGES; changes += 1) {
    steps.push(reach.slice(middle - changes, middle + changes + 1));
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      const isDown = isInsertion(reach, middle, diagonal, changes);
      let x = isDown ? reach[middle + diagonal + 1] : reach[middle + diagonal - 1] + 1;
      while (x < one.length && x - diagonal < other.length && one[x] === other[x - diagonal]) x += 1;
      reach[middle + diagonal] = x;
      if (x >= one.length && x - diagonal >= other.length) return backwards(steps, one.length, other.length);
    }
  }
  return [];
}

function isInsertion(reach, middle, diagonal, changes) {
  return (diagonal === -changes || (diagonal !== changes && reach[middle + diagonal - 1] < reach[middle + diagonal + 1]));
}

/** Follows the way back to the beginning, and returns the pairs on it. */
function backwards(steps, length, otherLength) {
  const pairs = [];
  let [x, y] = [length, otherLength];
  for (let changes = steps.length - 1; changes >= 0; changes -= 1) {
    const reach = steps[changes];
    const diagonal = x - y;
    const isDown = isInsertion(reach, changes, diagonal, changes);
    const before = isDown ? diagonal + 1 : diagonal - 1;
    const startX = changes === 0 ? 0 : reach[changes + before];
    const startY = changes === 0 ? 0 : startX - before;
    while (x > startX && y > startY) {
      [x, y] = [x - 1, y - 1];
      pairs.push([x, y]);
    }
    [x, y] = [startX, startY];
  }
  return pairs.reverse();
}
