use std::time::Duration;

use super::*;

#[test]
fn a_stopped_exchange_wakes_the_worker_and_takes_nothing_more() {
    let offload = Offload::default();
    let flush = || Task::Flush(End::because("stop"));
    offload.hand_over([flush(), flush()], None);
    offload.stop_after(&mut VecDeque::new());
    assert!(offload.take().is_empty());
    assert!(!offload.wait(false, Duration::from_secs(60)));
    assert!(offload.is_stopped());
}

fn answer() -> TaskResult {
    TaskResult {
        consumed: true,
        made: vec![],
        ports: vec![],
        outcome: Ok(Step::Forward),
        last: false,
        end: None,
        followed: false,
        held_elements: None,
    }
}

fn element() -> Task {
    let made = Emission::text("a");
    Task::Accept(Element::made(made, 0, 0, 0))
}

#[test]
fn what_was_never_taken_is_recalled_without_a_word() {
    let offload = Offload::default();
    offload.hand_over([element(), element()], None);
    assert_eq!(offload.recall(2, false, &mut VecDeque::new()), 0);
    assert!(offload.take().is_empty());
    offload.hand_over([element()], None);
    assert_eq!(offload.take().len(), 1);
    assert!(offload.give(answer()));
}

#[test]
fn a_worker_hears_of_a_recall_with_its_next_answer() {
    let offload = Offload::default();
    offload.hand_over([element(), element(), element()], None);
    assert_eq!(offload.take().len(), 3);
    assert!(offload.give(answer()));
    let mut results = VecDeque::new();
    assert_eq!(offload.recall(3, false, &mut results), 2);
    assert_eq!(results.len(), 1);
    assert!(!offload.give(answer()));
    assert!(offload.give(answer()));
}

#[test]
fn credit_is_used_up_by_what_is_made() {
    let offload = Offload::default();
    offload.hand_over([], Some(Credit { elements: 2, bytes: 100 }));
    let made = vec![Emission::text("a"), Emission::text("b")];
    offload.give(TaskResult {
        consumed: false,
        made,
        ports: vec![],
        outcome: Ok(Step::Done),
        last: false,
        end: None,
        followed: false,
        held_elements: None,
    });
    assert_eq!(offload.credit(), 0);
    // Results that were not collected yet still use credit.
    offload.hand_over([], Some(Credit { elements: 3, bytes: 100 }));
    assert_eq!(offload.credit(), 1);
    offload.hand_over([], Some(Credit { elements: 3, bytes: 2 }));
    assert_eq!(offload.credit(), 0);
}
