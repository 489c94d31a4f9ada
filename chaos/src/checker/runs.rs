//! Joins successive samples of the same holder or waiter into one span, unless something contradicts it.

use std::collections::HashMap;
use std::hash::Hash;

/// By key, joins items for as long as the next continues the last one. Returns the first and the last item of each run.
pub fn runs<K: Eq + Hash, T: Copy>(
    seen: impl IntoIterator<Item = (K, T)>,
    goes_on: impl Fn(T, T) -> bool,
) -> Vec<(T, T)> {
    let mut runs: Vec<(T, T)> = Vec::new();
    let mut latest: HashMap<K, usize> = HashMap::new();
    for (key, item) in seen {
        match latest.get(&key).map(|place| &mut runs[*place]) {
            Some(run) if goes_on(run.1, item) => run.1 = item,
            _ => {
                latest.insert(key, runs.len());
                runs.push((item, item));
            }
        }
    }
    runs
}
