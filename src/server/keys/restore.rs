//! A lock that has just begun, as the one command by which followers get it: `RESTORE key <end> <hash> ABSTTL REPLACE`.
//!
//! RESTORE sets the fields and the lease together, as it must be: a lock without its lease would never end. As two
//! commands they need a transaction around them, and those four cost followers and the log half of what a lock costs.
//! REPLACE also makes a hand-over one command: one holder's fields come as the other's go.

use super::kept;
use crate::server::ffi::string::Str;
use crc::{CRC_64_REDIS, Crc, Table};
use rlock_core::lock::Mode;

/// A hash as pairs of strings, whatever form it then takes in memory: the oldest form, which every server reads.
const HASH: u8 = 4;

/// The version of the format, which a server refuses if it is newer than its own. Older than any that loads the module.
const VERSION: [u8; 2] = 9_u16.to_le_bytes();

const CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The bytes beside the field: the mode, lengths, version and checksum.
const OVERHEAD: usize = 32;

/// A lock that has just begun, in the form that DUMP writes: with its only holder's field, which counts 1, and its mode,
/// which a plain lock does not have.
pub(super) fn dump(mode: Option<Mode>, field: Str<'_>) -> Vec<u8> {
    let field = field.bytes();
    let mut dump = Vec::with_capacity(field.len().saturating_add(OVERHEAD));
    dump.extend([HASH, if mode.is_some() { 2 } else { 1 }]);
    if let Some((name, value)) = mode.map(kept::mode) {
        append(&mut dump, name.bytes());
        append(&mut dump, value.bytes());
    }
    append(&mut dump, field);
    append(&mut dump, b"1");
    dump.extend(VERSION);
    let checksum = CHECKSUM.checksum(&dump);
    dump.extend(checksum.to_le_bytes());
    dump
}

/// A string behind its length, which takes six bits, or fourteen after a mark. No field is longer.
fn append(dump: &mut Vec<u8>, string: &[u8]) {
    const TWO_BYTES: u8 = 0x40;
    let [high, low] = u16::try_from(string.len()).unwrap_or(u16::MAX).to_be_bytes();
    if high == 0 && low < TWO_BYTES {
        dump.push(low);
    } else {
        dump.extend([high | TWO_BYTES, low]);
    }
    dump.extend(string);
}
