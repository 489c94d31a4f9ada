use super::*;

#[test]
fn what_is_left_at_the_end_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), "world").unwrap();
    let mut world = World::start(Stage::default(), directory.path());
    world.nodes[0].say("RLOCK.ACQUIRE orders:1 forgotten 60000 FENCED").unwrap();
    world.check_drained(&journal, Duration::ZERO);
    let broken = broken(directory.path());
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("nothing is left") && broken[0].contains("orders:1"), "{broken:?}");
}

#[test]
fn a_server_that_ends_by_itself_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), "world").unwrap();
    let mut world = World::start(Stage::default(), directory.path());
    assert_eq!(world.watch_for_deaths(&journal), Vec::<usize>::new());
    let _ = world.nodes[0].say("SHUTDOWN NOSAVE");
    rlock_testing::wait_until("it has ended", || !world.watch_for_deaths(&journal).is_empty());
    assert!(world.watch_for_deaths(&journal).is_empty());
    world.calm().unwrap();
    world.check_drained(&journal, Duration::ZERO);
    let broken = broken(directory.path());
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("no server dies"), "{broken:?}");
}

/// The broken promises, in words.
pub fn broken(directory: &std::path::Path) -> Vec<String> {
    let records = crate::history::read_all(directory).unwrap();
    let broken = records.into_iter().filter_map(|record| match record {
        crate::history::Record::Broken { promise, what, .. } => Some(format!("{promise}: {what}")),
        _ => None,
    });
    broken.collect()
}
