//! The node types that the kernel itself executes.

/// A node that changes what runs next. The kernel decides its outcome; nothing is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ControlKind {
    /// Waits for a time.
    Delay,
    /// The head of a loop: port `body` begins a round, port `done` leaves.
    Loop,
    /// Chooses among its output ports.
    Conditional,
    /// Starts another workflow as a child run.
    SubWorkflow,
    /// Waits for an answer from outside.
    Interrupt,
    /// Waits for a decision of one or more people.
    ApprovalGate,
    /// Waits for a decision of people with a role or a scope.
    GovernanceGate,
    /// Waits for answers to questions.
    ClarificationGate,
    /// Writes a value to a channel.
    ChannelWrite,
    /// Sets variables.
    SetVariable,
    /// Reads a variable.
    GetVariable,
    /// Decides which workers run next.
    Supervisor,
    /// Starts the workers that a supervisor chose.
    Dispatch,
}

impl ControlKind {
    /// Every control kind.
    pub const ALL: [Self; 13] = [
        Self::Delay,
        Self::Loop,
        Self::Conditional,
        Self::SubWorkflow,
        Self::Interrupt,
        Self::ApprovalGate,
        Self::GovernanceGate,
        Self::ClarificationGate,
        Self::ChannelWrite,
        Self::SetVariable,
        Self::GetVariable,
        Self::Supervisor,
        Self::Dispatch,
    ];

    /// The control kind of a node type id, if it is one.
    pub fn parse(type_id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_id() == type_id)
    }

    /// The node type id.
    pub fn type_id(self) -> &'static str {
        match self {
            Self::Delay => "core.delay",
            Self::Loop => "core.loop",
            Self::Conditional => "core.conditional",
            Self::SubWorkflow => "core.subWorkflow",
            Self::Interrupt => "core.interrupt",
            Self::ApprovalGate => "core.approvalGate",
            Self::GovernanceGate => "core.openwop.governance.approvalGate",
            Self::ClarificationGate => "core.clarificationGate",
            Self::ChannelWrite => "core.channelWrite",
            Self::SetVariable => "core.setVariable",
            Self::GetVariable => "core.getVariable",
            Self::Supervisor => "core.orchestrator.supervisor",
            Self::Dispatch => "core.dispatch",
        }
    }

    /// A summary of the node kind for people.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Delay => "Waits for a time.",
            Self::Loop => "Runs its body again and again, within bounds.",
            Self::Conditional => "Chooses which way to go on.",
            Self::SubWorkflow => "Runs another workflow as a run of its own.",
            Self::Interrupt => "Waits for an answer from outside.",
            Self::ApprovalGate => "Waits for people to accept or reject.",
            Self::GovernanceGate => "Waits for those with a role or a scope to grant or reject.",
            Self::ClarificationGate => "Waits for answers to questions.",
            Self::ChannelWrite => "Writes a value to a channel.",
            Self::SetVariable => "Sets variables.",
            Self::GetVariable => "Reads a variable.",
            Self::Supervisor => "Decides which workers go next.",
            Self::Dispatch => "Runs the workers a supervisor chose, each as a run of its own.",
        }
    }
}
