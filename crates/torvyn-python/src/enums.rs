//! Closed sets that Python and Rust share: the members of each are in `torvyn._contract.enums`.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use torvyn_reactor::trace::CallOutcome;
use torvyn_reactor::{FailureKind, Recovery, Role, State, Timing};
use torvyn_stream::{ErrorKind, Policy};
use torvyn_text::guard;

type Members = PyOnceLock<Vec<Member>>;

pub struct Member {
    object: Py<PyAny>,
    text: String,
}

pub trait SharedEnum: Copy + PartialEq + 'static {
    /// The name of the Python class.
    const CLASS: &'static str;
    /// The values, with the names of their Python members.
    const MEMBERS: &'static [(Self, &'static str)];

    /// The Python members, in the same order; looked up once.
    fn cell() -> &'static Members;
}

/// The Python member of a value.
pub fn to_python<'py, T: SharedEnum>(py: Python<'py>, value: T) -> PyResult<Bound<'py, PyAny>> {
    let position = T::MEMBERS.iter().position(|(known, _)| *known == value);
    let member = position.and_then(|position| members::<T>(py).ok()?.get(position));
    let unknown = || PyRuntimeError::new_err(format!("torvyn._contract.enums.{} is incomplete", T::CLASS));
    member.map(|member| member.object.bind(py).clone()).ok_or_else(unknown)
}

/// The value of a Python member, or of a text that equals one.
pub fn from_python<T: SharedEnum>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    // Compares texts, not objects: every new flow converts a dozen values.
    let text = object.cast::<PyString>()?.to_str()?;
    let position = members::<T>(object.py())?.iter().position(|member| member.text == text);
    match position {
        Some(position) => Ok(T::MEMBERS[position].0),
        None => Err(PyValueError::new_err(format!("unknown {}: {text}", T::CLASS))),
    }
}

fn members<'py, T: SharedEnum>(py: Python<'py>) -> PyResult<&'py Vec<Member>> {
    T::cell().get_or_try_init(py, || {
        let class = py.import("torvyn._contract.enums")?.getattr(T::CLASS)?;
        let member = |name: &str| {
            let object = class.getattr(name)?;
            Ok(Member { text: object.extract()?, object: object.unbind() })
        };
        T::MEMBERS.iter().map(|(_, name)| member(name)).collect()
    })
}

macro_rules! shared_enum {
    ($value:ty, $class:literal, { $($variant:ident => $member:literal,)+ }) => {
        impl SharedEnum for $value {
            const CLASS: &'static str = $class;
            const MEMBERS: &'static [(Self, &'static str)] = &[$((<$value>::$variant, $member)),+];

            fn cell() -> &'static Members {
                static CELL: Members = PyOnceLock::new();
                &CELL
            }
        }
    };
}

shared_enum!(Role, "Role", {
    Source => "SOURCE",
    Processor => "PROCESSOR",
    Filter => "FILTER",
    Router => "ROUTER",
    Aggregator => "AGGREGATOR",
    Sink => "SINK",
});

shared_enum!(State, "FlowState", {
    Running => "RUNNING",
    Draining => "DRAINING",
    Completed => "COMPLETED",
    Cancelled => "CANCELLED",
    Failed => "FAILED",
});

/// How a turn ended; without the time at which a parked flow is due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    Over,
    Output,
    Again,
    Parked,
}

shared_enum!(TurnStatus, "TurnStatus", {
    Over => "OVER",
    Output => "OUTPUT",
    Again => "AGAIN",
    Parked => "PARKED",
});

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    Element,
    Flush,
    Complete,
    Pressure,
    Interrupt,
}

shared_enum!(TaskKind, "TaskKind", {
    Element => "ELEMENT",
    Flush => "FLUSH",
    Complete => "COMPLETE",
    Pressure => "PRESSURE",
    Interrupt => "INTERRUPT",
});

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum VerdictKind {
    Pass,
    Drop,
    Replace,
    Block,
    Hold,
}

shared_enum!(VerdictKind, "VerdictKind", {
    Pass => "PASS",
    Drop => "DROP",
    Replace => "REPLACE",
    Block => "BLOCK",
    Hold => "HOLD",
});

shared_enum!(FailureKind, "FailureKind", {
    Component => "COMPONENT",
    QueueFull => "QUEUE_FULL",
    MemoryExceeded => "MEMORY_EXCEEDED",
    DeadlineExceeded => "DEADLINE_EXCEEDED",
    Panic => "PANIC",
});

shared_enum!(ErrorKind, "ErrorKind", {
    InvalidInput => "INVALID_INPUT",
    Unavailable => "UNAVAILABLE",
    Internal => "INTERNAL",
    DeadlineExceeded => "DEADLINE_EXCEEDED",
    Fatal => "FATAL",
    Contract => "CONTRACT",
    Interrupted => "INTERRUPTED",
});

shared_enum!(Timing, "Observability", {
    Off => "OFF",
    Sampled => "PRODUCTION",
    Every => "DIAGNOSTIC",
});

shared_enum!(Policy, "BackpressurePolicy", {
    Block => "BLOCK",
    DropOldest => "DROP_OLDEST",
    DropNewest => "DROP_NEWEST",
    Error => "ERROR",
});

shared_enum!(Recovery, "RecoveryPolicy", {
    FailFast => "FAIL_FAST",
    Skip => "SKIP",
    DeadLetter => "DEAD_LETTER",
    Store => "STORE",
    SetAside => "SET_ASIDE",
});

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    Critical,
    High,
    Normal,
    Low,
    Background,
}

shared_enum!(Priority, "PriorityClass", {
    Critical => "CRITICAL",
    High => "HIGH",
    Normal => "NORMAL",
    Low => "LOW",
    Background => "BACKGROUND",
});

shared_enum!(CallOutcome, "CallOutcome", {
    Pulled => "PULLED",
    Done => "DONE",
    Passed => "PASSED",
    Routed => "ROUTED",
    Dropped => "DROPPED",
    Held => "HELD",
    Replaced => "REPLACED",
    Blocked => "BLOCKED",
    Paused => "PAUSED",
    Failed => "FAILED",
});

/// Which rules a guard has; `torvyn_text::guard::Rules` has them compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RulesKind {
    Words,
    Patterns,
    Redact,
}

shared_enum!(RulesKind, "GuardRules", {
    Words => "WORDS",
    Patterns => "PATTERNS",
    Redact => "REDACT",
});

shared_enum!(guard::Action, "GuardAction", {
    Drop => "DROP",
    Replace => "REPLACE",
    Block => "BLOCK",
});

shared_enum!(guard::Policy, "GuardPolicy", {
    Hold => "HOLD",
    Optimistic => "OPTIMISTIC",
    Shadow => "SHADOW",
});
