//! Work with a time limit.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use super::Handle;

/// The result, unless it takes too long.
pub async fn within<T>(handle: &Handle, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut timer = handle.sleep(limit);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(made) => Poll::Ready(Some(made)),
        Poll::Pending => Pin::new(&mut timer).poll(context).map(|()| None),
    })
    .await
}
