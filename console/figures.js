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

  // What was counted of something, by its name, when it was first seen, and the seconds from then to the last look. Where its
  // requests went back it was started anew, and what was before does not count.
  since(name) {
    const of = ({ what }) => what.find((one) => one.name === name);
    let [from, before] = [this.last, of(this.last)];
    for (const look of this.kept.slice(0, -1).reverse()) {
      const one = of(look);
      if (!one || one.requests > before.requests) break;
      [from, before] = [look, one];
    }
    return { before, seconds: (this.last.at - from.at) / 1000 };
  }

  // Seconds between the first and the last.
  get seconds() {
    return (this.last.at - this.first.at) / 1000;
  }
}
