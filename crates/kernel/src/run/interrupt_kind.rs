//! The kinds of interrupts.

crate::words! {
    /// The kind of a question of a run, as named on the wire.
    pub enum InterruptKind {
        /// A person accepts or rejects.
        Approval = "approval",
        /// A person answers questions by their ids.
        Clarification = "clarification",
        /// An event from outside arrives, or an outside party ends the work of a node.
        ExternalEvent = "external-event",
        /// A person judges a decision of low confidence.
        LowConfidence = "low-confidence",
        /// Any other question, including the one about a failed node.
        Custom = "custom",
    }
}
