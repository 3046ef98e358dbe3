//! An SQLite database for the durable store in Python.
//!
//! Python's own module releases the interpreter several times per statement. Here a statement that only touches memory
//! keeps it, and a commit releases it once.

mod value;

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use rusqlite::{Connection, Error, MAIN_DB, OpenFlags, ffi};

use crate::database::value::{Input, Output};
use crate::interpreter;
use crate::lock::lock;

/// Prepared statements that are kept: more than the store has.
const STATEMENTS: usize = 64;

thread_local! {
    /// SQLite tells the thread that commits how many pages the WAL has then.
    static WAL_PAGES: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A connection. All errors are `sqlite3.Error` with an `sqlite_errorcode`.
#[pyclass(frozen, module = "torvyn._native")]
pub struct Database {
    connection: Mutex<Option<Connection>>,
    wal_pages: AtomicU32,
    mark: Option<PathBuf>,
    mark_file: Mutex<Option<File>>,
}

struct Page {
    records: Vec<Vec<Output>>,
    is_last: bool,
}

#[pymethods]
impl Database {
    /// `mark`: the file that `commit` writes a mark to.
    #[new]
    #[pyo3(signature = (path, *, mark=None, is_read_only=false))]
    fn new(py: Python<'_>, path: PathBuf, mark: Option<PathBuf>, is_read_only: bool) -> PyResult<Self> {
        let connection =
            interpreter::detached(py, move || open(path, is_read_only)).map_err(|e| value::error(py, &e))?;
        let connection = Mutex::new(Some(connection));
        Ok(Self { connection, wal_pages: AtomicU32::new(0), mark, mark_file: Mutex::default() })
    }

    /// Runs a statement and returns its rows. One that `is_quick` only touches memory and keeps the interpreter.
    #[pyo3(signature = (sql, values=None, *, is_quick=false))]
    fn execute<'py>(
        &self,
        py: Python<'py>,
        sql: &str,
        values: Option<&Bound<'py, PyTuple>>,
        is_quick: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let inputs = Input::all(values)?;
        let run = || self.run(sql, &inputs, usize::MAX);
        let page = if is_quick { run() } else { interpreter::detached(py, run) };
        value::rows(py, page.map_err(|error| value::error(py, &error))?.records)
    }

    /// The rows of a query until their blobs have so many bytes, and whether those were all. What cannot be read ends
    /// the page; it raises when it comes first.
    fn page<'py>(
        &self,
        py: Python<'py>,
        sql: &str,
        values: &Bound<'py, PyTuple>,
        max_bytes: usize,
    ) -> PyResult<(Bound<'py, PyList>, bool)> {
        let inputs = Input::all(Some(values))?;
        let page = interpreter::detached(py, || self.run(sql, &inputs, max_bytes));
        let page = page.map_err(|error| value::error(py, &error))?;
        Ok((value::rows(py, page.records)?, page.is_last))
    }

    /// Commits, and then writes the mark, which is not synced. A mark that cannot be written is no failure.
    #[pyo3(signature = (mark=None))]
    fn commit(&self, py: Python<'_>, mark: Option<&[u8]>) -> PyResult<()> {
        let done = interpreter::detached(py, || {
            self.run("COMMIT", &[], usize::MAX)?;
            if let Some(mark) = mark {
                self.write_mark(mark);
            }
            Ok(())
        });
        done.map_err(|error| value::error(py, &error))
    }

    /// The pages in the WAL after the last commit.
    #[getter]
    fn wal_pages(&self) -> u32 {
        self.wal_pages.load(Ordering::Relaxed)
    }

    #[getter]
    fn in_transaction(&self) -> bool {
        self.with(|connection| Ok(!connection.is_autocommit())).unwrap_or(false)
    }

    /// The database as a file would have it.
    fn serialize<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.with(|connection| Ok(connection.serialize(MAIN_DB)?.to_vec()));
        Ok(PyBytes::new(py, &data.map_err(|error| value::error(py, &error))?))
    }

    /// Rolls back what is not committed.
    fn close(&self, py: Python<'_>) {
        let connection = lock(&self.connection).take();
        interpreter::detached(py, move || drop(connection));
    }
}

impl Database {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let connection = lock(&self.connection);
        match &*connection {
            Some(connection) => work(connection),
            None => {
                Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), Some("it is closed".to_owned())))
            }
        }
    }

    fn run(&self, sql: &str, inputs: &[Input<'_>], max_bytes: usize) -> Result<Page, Error> {
        let page = self.with(|connection| read(connection, sql, inputs, max_bytes))?;
        if let Some(pages) = WAL_PAGES.take() {
            self.wal_pages.store(pages, Ordering::Relaxed);
        }
        Ok(page)
    }

    fn write_mark(&self, mark: &[u8]) {
        let mut file = lock(&self.mark_file);
        if let (None, Some(path)) = (&*file, &self.mark) {
            *file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).ok();
        }
        if let Some(file) = &*file {
            let _ = file.write_all_at(mark, 0);
        }
    }
}

fn open(path: PathBuf, is_read_only: bool) -> Result<Connection, Error> {
    let access = if is_read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    };
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // In the place of SQLite's own hook, which checkpoints: the store does that by itself, so that it sees the errors.
    connection.wal_hook(Some(|_, pages| {
        WAL_PAGES.set(u32::try_from(pages).ok());
        Ok(())
    }));
    Ok(connection)
}

fn read(connection: &Connection, sql: &str, inputs: &[Input<'_>], max_bytes: usize) -> Result<Page, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(inputs))?;
    let (mut records, mut size) = (Vec::new(), 0);
    while size < max_bytes {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(Page { records, is_last: true }),
            Err(error) if records.is_empty() || max_bytes == usize::MAX => return Err(error),
            Err(_) => break,
        };
        let record = (0..columns).map(|at| Ok(Output::from(row.get_ref(at)?)));
        let record = record.collect::<Result<Vec<Output>, Error>>()?;
        size += record.iter().map(Output::blob_bytes).sum::<usize>();
        records.push(record);
    }
    Ok(Page { records, is_last: false })
}
