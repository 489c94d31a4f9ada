//! The same in one sample after the other: whoever is seen again and again has been there all the time, if nothing speaks
//! against it.

use std::collections::HashMap;
use std::hash::Hash;

/// Of each key what was seen one after the other, as long as the next goes on with the last: the first and the last of it.
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
