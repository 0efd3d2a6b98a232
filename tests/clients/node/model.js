// A model.json as posthaste-lab writes it, small, with names that would be markup if they were not text.

const figure = (value) => ({ value, low: value * 0.9, high: value * 1.1 });

// A curve of a system whose clients think for a second and then wait for so many seconds each for those before them.
function curve(says, each, change) {
  const points = [1, 10, 20, 40].map((clients) => {
    const response = 0.01 + each * clients;
    return {
      clients,
      throughput_per_s: figure(clients / (1 + response)),
      response_time_s: figure(response),
      extrapolated: clients > 20,
    };
  });
  return { says, change, points };
}

// As of a run of one repetition.
function bare({ points, ...rest }) {
  const without = ({ value }) => ({ value, low: null, high: null });
  return {
    ...rest,
    points: points.map((point) => ({
      ...point, throughput_per_s: without(point.throughput_per_s), response_time_s: without(point.response_time_s),
    })),
  };
}

export const MODEL = {
  format: "posthaste-lab model",
  version: 2,
  title: "<img src=x onerror=alert(1)>",
  experiment_sha256: "",
  confidence: 0.95,
  factors: {},
  models: [{
    where: { size: "<b class=hostile>" },
    kind: "workers",
    think_time_s: 1,
    batch_limit: null,
    workers: 1,
    middlewares: 1,
    range: { clients_min: 1, clients_max: 60, batch_requests_max: null },
    points: [1, 10, 20].map((clients) => ({
      clients,
      trials: 5,
      throughput_per_s: clients / (1.01 + 0.01 * clients),
      response_time_s: 0.01 + 0.01 * clients,
    })),
    bottleneck: {
      clients: 20,
      stage: "store",
      lead_share: 0.2,
      effects: [{ stage: "store", gain_share: 0.25, interval: { low: 0.2, high: 0.3 } }, { stage: "path", gain_share: 0.01, interval: null }],
    },
    curves: [
      curve("as measured", 0.01, { workers: null, halved: null }),
      curve("2 workers", 0.005, { workers: 2, halved: null }),
      bare(curve("store: half", 0.006, { workers: null, halved: "batch_s" })),
    ],
  }],
};
