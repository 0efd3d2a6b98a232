//! Measurement of a program: stamps on every request, histograms per thread, windows, and the record of a run.
//!
//! Servers and load generator use this crate, so their figures can be compared. It knows neither protocols
//! nor sockets: kinds of requests are a static table of names, times are nanoseconds since the program's start.
//!
//! ```text
//! threads:    Stamps -> Recorder::note … flush        (once per loop turn, its own mutex)
//! collector:  Meter::turn -> WindowEnd -> Record::window   (once per window)
//! readers:    Meter::windows, totals, info, summary
//! ```

mod backlog;
mod chunk;
mod clock;
mod distribution;
mod figures;
mod info;
mod lock;
mod meter;
mod record;
mod recorder;
mod scheme;
mod stage;
mod summary;
mod tally;

pub use backlog::Backlog;
pub use clock::{Clock, ClockPair, Hand};
pub use distribution::{Distribution, LatencySummary};
pub use figures::{Figures, KindFigures, Named, Window};
pub use lock::lock;
pub use meter::{Meter, WindowEnd};
pub use record::{Ended, Event, Events, Record, RecordError, RunInfo, cpu_ticks};
pub use recorder::Recorder;
pub use scheme::{Counted, Scheme};
pub use stage::{ClientStamps, Ending, Noted, Stamps, Trail};
pub use tally::{Tallies, Tally};
