// The server's JSON. An error is thrown with the sentence that the server gave.

export async function ask(method, path, body) {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    // The page's own address may hold credentials, with which the browser would refuse to ask.
    response = await fetch(new URL(path, location.origin), options);
  } catch {
    throw new Error("The server does not answer.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) throw new LoggedOut(answer.message);
  if (response.ok) return answer;
  const said = answer.message ? `${answer.error}: ${answer.message}` : `HTTP ${response.status}`;
  throw response.status === 404 ? new NotThere(said) : new Error(said);
}

// There is nothing of that name.
export class NotThere extends Error {}

// The browser has asked for an account and was given none, or a wrong one. It would ask again at every request.
export class LoggedOut extends Error {
  constructor(why) {
    super(`Not logged in (${why}). Reload the page to log in.`);
  }
}

export const get = (path) => ask("GET", path);
export const post = (path, body) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);

export function queuePath(name, rest = "") {
  return `/v1/queues/${encodeURIComponent(name)}${rest}`;
}

export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}
