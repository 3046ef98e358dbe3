//! Closed sets that Python and Rust share: the members of each are in `torvyn.contract.enums`.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use torvyn_reactor::{FailureKind, Recovery, Role, State, Timing};
use torvyn_stream::{ErrorKind, Policy};

type Members = PyOnceLock<Vec<Py<PyAny>>>;

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
    let unknown = || PyRuntimeError::new_err(format!("torvyn.contract.enums.{} is incomplete", T::CLASS));
    member.map(|member| member.bind(py).clone()).ok_or_else(unknown)
}

/// The value of a Python member, or of a text that equals one.
pub fn from_python<T: SharedEnum>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    let py = object.py();
    let members = members::<T>(py)?;
    let is_equal = |member: &Py<PyAny>| member.bind(py).eq(object).unwrap_or(false);
    let position = members.iter().position(|member| member.is(object));
    match position.or_else(|| members.iter().position(is_equal)) {
        Some(position) => Ok(T::MEMBERS[position].0),
        None => Err(PyValueError::new_err(format!("unknown {}: {object}", T::CLASS))),
    }
}

fn members<'py, T: SharedEnum>(py: Python<'py>) -> PyResult<&'py Vec<Py<PyAny>>> {
    T::cell().get_or_try_init(py, || {
        let class = py.import("torvyn.contract.enums")?.getattr(T::CLASS)?;
        T::MEMBERS.iter().map(|(_, name)| Ok(class.getattr(*name)?.unbind())).collect()
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
