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

pub mod verbs; // sets of commands

pub mod resolver; // looks names up

pub mod groups; // names that stand for several servers

pub mod memcached_server; // a server, as all threads see it

pub mod fleet; // all servers, and the table in force

mod reconfigure; // a configuration is put in force

mod delayed_flush; // servers that do not know of a delayed flush

mod new_members; // servers that come into a pool which had others

mod in_parallel; // the same work for several servers at once

pub mod handover; // whether all threads have adopted the newest table

pub mod table; // which route, pool and servers a key has

pub mod renaming; // routes that change keys

pub mod server_limits; // how long a server is waited for, and for how many answers

pub mod rate_limiter; // a limit of requests in a time

pub mod client_rate_limiters; // one for each address that clients come from

pub mod pool; // servers, and which of them a request asks

pub mod rules; // how requests are spread

pub mod placement; // which server owns a key

pub mod router; // requests in, commands out; replies in, answers out

pub mod answers; // what goes back to clients, in order

pub mod gather; // values of several servers, merged

pub mod claims; // which thread may write a key now

pub mod late_writes; // writes that may be carried out late

pub mod flushes; // flushes beside writes

pub mod health; // whether a server takes part

pub mod admin_state; // what operators want of a server, and the state that it is in

pub mod missed_writes; // what servers missed while they were away

pub mod identity; // which run of a server answers

mod deletion; // how a key is deleted

pub mod server_events; // losses and returns of servers, for the record

pub mod costs; // what multi-gets cost

pub mod latency; // how long servers and routes take

pub mod request_kind; // kinds of requests, by which they are counted

pub mod mock; // fixed answers

pub mod stats; // the answers to stats

pub mod admin; // servers, pools and routes, for operators

pub mod explain; // the way of a key

pub mod server; // the tier as a whole

mod web; // what it serves over HTTP

pub use web::routes as http_routes;

mod api; // the console, and the clients that are connected

pub mod held_memory; // how much all threads hold for clients

pub mod shared; // what all threads share

pub mod tier; // between reading and writing, on each network thread

mod client;

mod cork; // answers that wait to leave together

mod moderation; // short sleeps that let replies of several servers come together

pub mod engine; // what takes requests: one of the next two

pub mod pipelined;

mod link; // a connection to a server, in pipelined mode

pub mod queued;

pub mod worker_line; // where requests wait for workers

pub mod worker;

pub mod backend; // a server's name and address

pub mod dialect; // which meta commands a server understands

pub mod prober; // finds out whether servers are there

mod recovery; // how a lost server comes back

mod control_connection; // questions to a server, each waited for

mod name_refresher; // looks names up again
