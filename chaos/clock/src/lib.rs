//! A clock that steps, for one server. Preloaded into the server, this library hides the C library's functions for the time of
//! day, and adds to the time an offset from a file.
//!
//! `RLOCK_CHAOS_CLOCK` names the file. It holds eight bytes: a number of milliseconds in the machine's own byte order.
//! To step the clock, write there. Without such a file the time is the true one.
//!
//! The time comes from system calls: only the dynamic linker could find the hidden functions, but it allocates memory, and a
//! server's allocator asks for the time. For the same reason nothing here allocates, locks or panics.

use libc::{c_int, c_long, c_void, clockid_t, time_t, timespec, timeval};
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

const VARIABLE: &std::ffi::CStr = c"RLOCK_CHAOS_CLOCK";

static NONE: AtomicI64 = AtomicI64::new(0);
static OFFSET_MS: AtomicPtr<AtomicI64> = AtomicPtr::new((&raw const NONE).cast_mut());

/// The dynamic linker calls this before the server's `main`, when there is one thread and the environment is as it was given:
/// servers write over it later, to change their title.
#[used]
// SAFETY: the section holds pointers to functions without results, and this is one. It ignores the linker's arguments.
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = map_offset;

extern "C" fn map_offset() {
    // SAFETY: the name ends with a nul, and no other thread is there that could change the environment.
    let path = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: what getenv finds ends with a nul and stays where it is until the environment changes.
    let file = unsafe { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    let length = size_of::<AtomicI64>();
    // SAFETY: a mapping of an open file at a new address changes no other memory. It is never unmapped.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file, 0) };
    // SAFETY: the descriptor is ours, and not used again. The mapping stays without it.
    unsafe { libc::close(file) };
    if place != libc::MAP_FAILED {
        OFFSET_MS.store(place.cast(), Ordering::Relaxed);
    }
}

fn offset_ms() -> i64 {
    // SAFETY: it points to `NONE` or to the start of a page that is mapped for good. Others change the number by atomic
    // stores only, and a load needs no permission to write.
    unsafe { &*OFFSET_MS.load(Ordering::Relaxed) }.load(Ordering::Relaxed)
}

/// Adds `offset` ms to a time: its seconds, and the rest in parts; `unit` parts make a second.
fn moved((seconds, part): (i64, i64), unit: i64, offset: i64) -> (i64, i64) {
    let part = part + offset % 1_000 * (unit / 1_000);
    (seconds + offset / 1_000 + part.div_euclid(unit), part.rem_euclid(unit))
}

fn is_time_of_day(clock: clockid_t) -> bool {
    clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_REALTIME_COARSE
}

fn ask_kernel(clock: clockid_t, time: *mut timespec) -> c_long {
    // SAFETY: the kernel checks the clock and the place, and writes a time there or says that it cannot.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) }
}

/// # Safety
/// As for the C library's function: `time` is a place for a time, or null.
// SAFETY: it has the signature and the meaning of the function that it hides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let result = ask_kernel(clock, time);
    if result == 0 && !time.is_null() && is_time_of_day(clock) {
        // SAFETY: the kernel has just written to this place, and the caller lends it.
        let time = unsafe { &mut *time };
        (time.tv_sec, time.tv_nsec) = moved((time.tv_sec, time.tv_nsec), 1_000_000_000, offset_ms());
    }
    if result == 0 { 0 } else { -1 }
}

/// # Safety
/// As for the C library's function: `time` is a place for a time, or null; so is `zone`.
// SAFETY: it has the signature and the meaning of the function that it hides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the kernel checks both places, and writes there or says that it cannot.
    let result = unsafe { libc::syscall(libc::SYS_gettimeofday, time, zone) };
    if result == 0 && !time.is_null() {
        // SAFETY: the kernel has just written to this place, and the caller lends it.
        let time = unsafe { &mut *time };
        (time.tv_sec, time.tv_usec) = moved((time.tv_sec, time.tv_usec), 1_000_000, offset_ms());
    }
    if result == 0 { 0 } else { -1 }
}

/// # Safety
/// As for the C library's function: `result` is a place for a time, or null.
// SAFETY: it has the signature and the meaning of the function that it hides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(result: *mut time_t) -> time_t {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    ask_kernel(libc::CLOCK_REALTIME, &raw mut now);
    let (seconds, _) = moved((now.tv_sec, now.tv_nsec), 1_000_000_000, offset_ms());
    if !result.is_null() {
        // SAFETY: the caller says that it is a place for a time.
        unsafe { *result = seconds };
    }
    seconds
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn the_smaller_part_is_never_negative_nor_a_whole_second() {
        let micros = |time, offset| moved(time, 1_000_000, offset);
        assert_eq!(micros((10, 999_999), 0), (10, 999_999));
        assert_eq!(micros((10, 999_999), 1), (11, 999));
        assert_eq!(micros((10, 1_000), -1), (10, 0));
        assert_eq!(micros((10, 999), -1), (9, 999_999));
        assert_eq!(micros((10, 500_000), -3_500), (7, 0));
        assert_eq!(micros((10, 500_000), 3_500), (14, 0));
        assert_eq!(moved((10, 1), 1_000_000_000, -1), (9, 999_000_001));
    }
}
