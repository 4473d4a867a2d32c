//! What putting a request before its target came to, in the contract's words.

/// What was seen on the way of a request to its target, in the order of the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempt {
    /// The request names no target.
    #[default]
    NoTarget,
    /// It is for the leader, who has no pane now.
    NoLeader,
    /// There is nothing of the target's name.
    Unresolved,
    /// A shell is there that would run the message.
    Shell,
    /// The target takes no input now.
    NotReady,
    /// Sending failed.
    NotSent,
    /// It was sent, and whether it arrived was looked for.
    Sent(Sight),
}

/// What was seen of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is there.
    Confirmed,
    /// It is there, and the target works on something.
    ConfirmedActive,
    /// It was not seen; it may be sent again.
    UnconfirmedYet,
    /// It was not seen, and was sent as often as it may be.
    Unconfirmed,
}

/// What becomes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits on.
    KeepPending(&'static str),
    /// Its target was told.
    Notified(&'static str),
    /// It failed.
    Failed(&'static str),
}

impl Attempt {
    /// What it means for the request, with the reason as the contract spells it.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::NoTarget => Outcome::Failed("missing_tmux_target"),
            Self::NoLeader => Outcome::KeepPending("leader_pane_missing_deferred"),
            Self::Unresolved => Outcome::Failed("target_resolution_failed:unresolved_target"),
            Self::Shell => Outcome::KeepPending("deferred_shell"),
            Self::NotReady => Outcome::Failed("preflight_failed:pane_not_ready"),
            Self::NotSent => Outcome::Failed("send_failed:send_failed"),
            Self::Sent(Sight::Confirmed) => Outcome::Notified("tmux_send_keys_confirmed"),
            Self::Sent(Sight::ConfirmedActive) => {
                Outcome::Notified("tmux_send_keys_confirmed_active_task")
            }
            Self::Sent(Sight::UnconfirmedYet) => Outcome::KeepPending("tmux_send_keys_unconfirmed"),
            Self::Sent(Sight::Unconfirmed) => Outcome::Failed("tmux_send_keys_unconfirmed"),
        }
    }
}
