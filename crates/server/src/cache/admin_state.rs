//! What operators want of a server, and the state that it is in.

use std::fmt;
use std::str::FromStr;

/// What an operator wants of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminState {
    /// The server takes part as far as it can.
    Up,
    /// The server is read only where no other can answer; writes still reach it.
    Drain,
    /// The server takes no part.
    Down,
}

impl FromStr for AdminState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "up" => Ok(Self::Up),
            "drain" => Ok(Self::Drain),
            "down" => Ok(Self::Down),
            _ => Err("write up, drain or down".into()),
        }
    }
}

/// The state of a server, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// The server takes part.
    Live,
    /// The server takes part, but is read only where no other can answer.
    Draining,
    /// The server was lost; it is asked until it answers.
    Away,
    /// An operator took the server out.
    Down,
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Away => "away",
            Self::Down => "down",
        })
    }
}
