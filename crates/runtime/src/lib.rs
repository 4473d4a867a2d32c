//! What happens around the kernel: the one door, holds, the worker, ports, the process
//! supervisor and the work nodes.

pub mod nodes;
pub mod outbound;
pub mod supervisor;
