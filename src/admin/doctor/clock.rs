//! Checks that the clock of this machine is synchronized. Leases that outlast a restart, expiries given as
//! dates, and every comparison with another machine depend on it.
//!
//! The kernel knows, whatever program sets the clock (adjtimex(2)), but no library that we would depend on asks it.
//! systemd's `timedatectl` does, without privileges. If it cannot be asked, the finding is that nothing is known.

use std::process::{Command, Stdio};

use super::rules::Finding;

/// Whether this machine's clock is synchronized.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Synchronized {
    Yes,
    No,
    /// Unknown, and why.
    Unknown(String),
}

/// Looks at the clock of this machine.
pub(crate) fn examine() -> Option<Finding> {
    let mut command = Command::new("timedatectl");
    command.args(["show", "--property=NTPSynchronized", "--value"]).stdin(Stdio::null());
    finding(&match command.output() {
        Ok(output) => {
            understood(&String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => Synchronized::Unknown(error.to_string()),
    })
}

fn understood(said: &str, complaint: &str) -> Synchronized {
    match said.trim() {
        "yes" => Synchronized::Yes,
        "no" => Synchronized::No,
        _ => Synchronized::Unknown(complaint.lines().next().unwrap_or("no answer").to_owned()),
    }
}

fn finding(state: &Synchronized) -> Option<Finding> {
    match state {
        Synchronized::Yes => None,
        Synchronized::No => Some(Finding::note(
            "clock",
            "nobody synchronizes the clock of this machine (timedatectl): have chrony or systemd-timesyncd do it \
             (timedatectl set-ntp true)",
        )),
        Synchronized::Unknown(why) => {
            let text = format!(
                "unknown whether anybody synchronizes the clock of this machine: timedatectl cannot tell ({why}); ask the \
                 one who should (chronyc tracking, ntpq -p)"
            );
            Some(Finding::note("clock", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_timedatectl_says_is_understood_and_silence_is_not_taken_for_a_yes() {
        assert_eq!(finding(&understood("yes\n", "")), None);
        let told = |said, complaint| finding(&understood(said, complaint)).expect("a finding").text;
        assert!(told("no\n", "").contains("set-ntp"));
        assert!(told("", "Failed to connect to bus: Host is down\n").contains("(Failed to connect to bus"));
        assert!(told("", "").contains("(no answer)"));
    }
}
