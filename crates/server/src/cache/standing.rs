//! How a server stands, and how people want it to.

use std::fmt;
use std::str::FromStr;

/// What people want of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It takes part as far as it can.
    Up,
    /// It is read only where nobody else can answer; writes still reach it.
    Drain,
    /// It takes no part.
    Down,
}

impl FromStr for Wish {
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

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes part.
    Live,
    /// It takes part, but is read only where nobody else can answer.
    Draining,
    /// It was lost; it is asked until it answers.
    Away,
    /// It was taken out.
    Down,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Away => "away",
            Self::Down => "down",
        })
    }
}
