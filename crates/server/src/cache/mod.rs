//! The cache tier: a router between memcached clients and memcached servers.
//!
//! ```text
//!   clients ─▶ front: read, parse ─▶ router ─▶ lanes ─▶ servers          pipelined
//!                 ▲                       │ ▲               │
//!                 └──── answers ◀─────────┘ └─── replies ◀──┘
//!
//!   clients ─▶ front: read, parse ─▶ line ─▶ workers, each a router of its own ─▶ servers      --workers N
//! ```
//!
//! [`router`] decides everything and does no I/O; the rest moves bytes.

pub mod limits;

pub mod layout; // what a configuration says

pub mod directory; // where names are

pub mod groups; // seats of as many servers as a name has

pub mod fleet; // servers, and the table in force

mod reception; // servers that come

pub mod handover; // from one table to the next

pub mod table; // routes: which pool, which servers

pub mod renaming; // keys that servers know by other names

pub mod patience; // how long a server is waited for

pub mod limit; // so many requests and no more

pub mod client_limit; // the same for each address that asks

pub mod pool; // servers, and whom of them a request asks

pub mod rules; // how requests are spread

pub mod placement; // who owns a key

pub mod router; // requests in, commands out; replies in, answers out

pub mod answers; // what goes back to clients, in order

pub mod gather; // values of several servers, merged

pub mod claims; // who writes a key now

pub mod flushes; // and what is flushed meanwhile

pub mod health; // who takes part

pub mod standing; // how servers stand, and how people want them to

pub mod missed; // what servers missed while they were away

pub mod identity; // whether it is still the same server that answers

mod deletion; // how a key is deleted

pub mod chronicle; // what the record tells of them

pub mod costs; // what multi-gets cost

pub mod latency; // how long servers take

pub mod kind; // what requests count as

pub mod mock; // fixed answers

pub mod stats; // figures for clients

pub mod desk; // what people ask and wish: servers, pools, routes

pub mod explain; // the way of a key

pub mod server; // the tier as a whole

mod web; // what it serves over HTTP

pub use web::routes as http_routes;

mod api; // the console, and the clients

pub mod hall; // what its threads share

pub mod tier; // between reading and writing, on each network thread

mod client;
mod cork;
mod moderation;

pub mod engine; // what takes requests: one of the next two

pub mod pipelined;

mod link; // a connection to a server, in pipelined mode

pub mod queued;

pub mod line; // with workers: where requests wait

pub mod worker;

pub mod backend; // where a server is

pub mod dialect; // which meta commands it understands

pub mod prober; // tells whether servers are there

mod homecoming; // how one that was lost comes back

mod inquiry; // asks a server, and waits for its answers

mod namer; // looks names up again
