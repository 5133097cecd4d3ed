//! The one SQL type that the driver does not bring: instants.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use roundsman_core::Timestamp;

/// PostgreSQL counts microseconds from 2000-01-01T00:00:00Z; we count from 1970.
pub(super) const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A [`Timestamp`] as a `timestamptz`. Both are whole microseconds, so nothing is ever rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Timestamp);

impl Time {
    /// The value as it goes over the wire.
    pub(super) fn to_wire(self) -> i64 {
        self.0.as_micros().saturating_sub(POSTGRES_EPOCH_MICROS)
    }
}

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.to_wire());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        // The two ends of the range are PostgreSQL's infinities, which are no instants.
        if micros == i64::MAX || micros == i64::MIN {
            return Err("an infinite timestamp".into());
        }
        let since_1970 =
            micros.checked_add(POSTGRES_EPOCH_MICROS).ok_or("a timestamp out of range")?;
        Ok(Time(Timestamp::from_micros(since_1970)))
    }

    accepts!(TIMESTAMPTZ);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_survives_the_wire() {
        for micros in [0, 1, POSTGRES_EPOCH_MICROS, Timestamp::MAX.as_micros(), -6_000_000_000] {
            let time = Time(Timestamp::from_micros(micros));
            let mut wire = BytesMut::new();
            time.to_sql(&Type::TIMESTAMPTZ, &mut wire).unwrap();
            assert_eq!(Time::from_sql(&Type::TIMESTAMPTZ, &wire).unwrap(), time);
        }
        assert_eq!(Time(Timestamp::from_micros(POSTGRES_EPOCH_MICROS)).to_wire(), 0);
    }

    #[test]
    fn infinity_is_no_instant() {
        for micros in [i64::MAX, i64::MIN] {
            assert!(Time::from_sql(&Type::TIMESTAMPTZ, &micros.to_be_bytes()).is_err());
        }
    }
}
