//! The wire of reactive streams: each record behind its length, four bytes, the greatest first.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest record that is read.
pub const RECORD_BYTES_MAX: usize = 10 << 20;

/// Read at once: a length that lies makes no more room than what has come.
const READ_BYTES: usize = 64 << 10;

pub enum Next {
    Record(Vec<u8>),
    /// The other side has closed behind a whole record.
    End,
    /// It has closed in the middle of one, or the connection broke.
    Broken(std::io::Error),
    TooLong(usize),
}

/// The next record.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Next {
    let mut length = [0; 4];
    match stream.read(&mut length[..1]).await {
        Ok(0) => return Next::End,
        Ok(_) => {}
        Err(error) => return Next::Broken(error),
    }
    if let Err(error) = stream.read_exact(&mut length[1..]).await {
        return Next::Broken(error);
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > RECORD_BYTES_MAX {
        return Next::TooLong(length);
    }
    let mut record = Vec::new();
    while record.len() < length {
        let start = record.len();
        record.resize(length.min(start + READ_BYTES.max(start)), 0);
        if let Err(error) = stream.read_exact(&mut record[start..]).await {
            return Next::Broken(error);
        }
    }
    Next::Record(record)
}

/// A record of these parts as it is sent; None when its length cannot be said.
pub fn framed(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let length = u32::try_from(parts.iter().map(|part| part.len()).sum::<usize>()).ok()?;
    Some([&[length.to_be_bytes().as_slice()], parts].concat().concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::runtime;

    #[test]
    fn records_are_read_as_they_were_written() {
        let records: [&[u8]; 4] = [b"", b"a", &[7; 200_000], b"last"];
        let mut wire: Vec<u8> = records.iter().flat_map(|record| framed(&[record]).unwrap()).collect();
        let next = |wire: &mut &[u8]| runtime().block_on(read(wire));
        let mut rest = wire.as_slice();
        for record in records {
            assert!(matches!(next(&mut rest), Next::Record(read) if read == record));
        }
        assert!(matches!(next(&mut rest), Next::End));
        wire.truncate(3);
        assert!(matches!(next(&mut wire.as_slice()), Next::Broken(_)));
        assert!(matches!(next(&mut [0, 0, 0, 9, 1].as_slice()), Next::Broken(_)));
        assert!(matches!(next(&mut [0xff; 4].as_slice()), Next::TooLong(_)));
        assert!(matches!(next(&mut [0, 0xa0, 0, 0].as_slice()), Next::Broken(_)));
        assert!(matches!(next(&mut [0, 0xa0, 0, 1].as_slice()), Next::TooLong(10_485_761)));
    }
}
