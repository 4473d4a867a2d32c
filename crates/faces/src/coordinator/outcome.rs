//! Outcomes of delivering a request to its target, in the contract's words.

/// The result of delivering a request to its target, in the order of the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempt {
    /// The request names no target.
    #[default]
    NoTarget,
    /// It is for the leader, who has no pane at present.
    NoLeader,
    /// No pane has the target's name.
    Unresolved,
    /// A shell runs there, which would execute the message.
    Shell,
    /// The target does not accept input at present.
    NotReady,
    /// Sending failed.
    NotSent,
    /// It was sent, with the result of looking for it.
    Sent(Sight),
}

/// The result of looking for a sent message at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is there.
    Confirmed,
    /// It is there, and the target is busy.
    ConfirmedActive,
    /// It was not seen yet; it may be sent again.
    UnconfirmedYet,
    /// It was not seen, and the limit of attempts is reached.
    Unconfirmed,
}

/// The resulting state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits on.
    KeepPending(&'static str),
    /// Its target was notified.
    Notified(&'static str),
    /// It failed.
    Failed(&'static str),
}

impl Attempt {
    /// The resulting state, with the reason in the contract's spelling.
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
