//! Arbitrary bytes as lines of an event file: no panic, and what is read as an event is written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schema::wire::EventLine;

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(event) = EventLine::from_line(line) else { continue };
        let written = serde_json::to_vec(&event).expect("what was read can be written");
        assert_eq!(EventLine::from_line(&written).expect("what was written can be read"), event);
    }
});
