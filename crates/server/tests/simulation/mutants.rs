//! Defects put in on purpose, to see that the simulation finds them: each stands for a whole class of mistakes.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The disk says that it has synced and has not: what was acknowledged is gone after a power cut.
    LyingDisk,
    /// Answers leave before the sync.
    AnswerBeforeSync,
    /// A worker swaps the answers of two clients.
    SwappedAnswers,
    /// A worker sends a bundle home to another connection.
    WrongConnection,
    /// A bundle that was taken from the line is forgotten.
    LostBundle,
    /// A byte of an answer is another.
    AlteredByte,
    /// A waiting pop is told that there is nothing long before its time.
    WrongWake,
    /// A waiting pop is passed over for one that came later.
    PassedOver,
    /// Mail does not wake a network thread.
    LostWake,
    /// The clock goes backwards.
    ClockBack,
    /// A pop leaves its message in the queue.
    TakenTwice,
    /// The recipient of a message is ignored.
    AnyRecipient,
    /// Those who wait are not told of a message.
    LostNews,
    /// Nobody wakes when a lease, a delay or a wait is over.
    LostTimer,
    /// A commit that went well is said to have failed.
    FalseAlarm,
}

impl Mutant {
    /// All of them.
    pub(crate) const ALL: [Self; 15] = [
        Self::LyingDisk,
        Self::AnswerBeforeSync,
        Self::SwappedAnswers,
        Self::WrongConnection,
        Self::LostBundle,
        Self::AlteredByte,
        Self::WrongWake,
        Self::PassedOver,
        Self::LostWake,
        Self::ClockBack,
        Self::TakenTwice,
        Self::AnyRecipient,
        Self::LostNews,
        Self::LostTimer,
        Self::FalseAlarm,
    ];
}
