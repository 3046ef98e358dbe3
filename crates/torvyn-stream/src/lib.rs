//! Elements, bounded queues, the ledger, and the `Stage` trait that every component implements.
//!
//! Nothing here knows Python, files, networks or threads; the reactor drives it and `torvyn-python` fills it.

pub mod account;
pub mod batch;
pub mod content;
pub mod counter;
pub mod delivery;
pub mod element;
pub mod foreign;
pub mod ledger;
pub mod payload;
pub mod queue;
pub mod receipt;
pub mod ring;
mod stage;

pub use account::{Account, Charge};
pub use batch::{Answers, Batch, Settled};
pub use content::{ContentName, ContentType, LONGEST_NAME};
pub use counter::{Counter, Rare};
pub use delivery::Delivery;
pub use element::Element;
pub use foreign::{Foreign, ForeignTable, TextStream};
pub use ledger::{CopyReason, Ledger};
pub use payload::{INLINE_MAX, Payload};
pub use queue::{Offer, Policy, Queue, QueueCounters};
pub use receipt::{AckLog, Receipt};
pub use stage::{Call, Emission, End, ErrorKind, Outbox, Pull, Stage, StageError, Step};
