// What is read off counts: rates, shares and percentiles of the time between two looks at them.

// What came between two looks at the buckets of a server, each [below_us, count].
export function between(before, after) {
  const old = new Map(before);
  return after.map(([below, count]) => [below, count - (old.get(below) ?? 0)]).filter(([, count]) => count > 0);
}

// The time that this share of replies stayed below; null: there were none.
export function percentile(buckets, share) {
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  for (const [below, count] of buckets) {
    seen += count;
    if (seen >= share * total) return below;
  }
  return null;
}

// A list that forgets what is older than so many milliseconds, but for the last two.
export class Looks {
  constructor(ms) {
    this.ms = ms;
    this.kept = [];
  }

  add(at, what) {
    this.kept.push({ at, what });
    while (this.kept.length > 2 && at - this.kept[0].at > this.ms) this.kept.shift();
  }

  get first() {
    return this.kept[0];
  }

  get last() {
    return this.kept.at(-1);
  }

  // Seconds between the first and the last.
  get seconds() {
    return (this.last.at - this.first.at) / 1000;
  }
}
