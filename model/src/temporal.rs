//! Dates, times and durations as plain numbers. Text forms and arithmetic are functions of the compiler crate.

use crate::value::Text;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date {
    /// Days since 1970-01-01.
    pub epoch_day: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LocalTime {
    pub nano_of_day: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Time {
    pub nano_of_day: i64,
    pub offset_seconds: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LocalDateTime {
    pub epoch_day: i64,
    pub nano_of_day: i64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DateTime {
    pub epoch_second: i64,
    pub nano: i32,
    pub offset_seconds: i32,
    /// The region, where one was named (`Europe/Berlin`).
    pub zone: Option<Text>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Duration {
    pub months: i64,
    pub days: i64,
    pub seconds: i64,
    pub nanos: i32,
}
