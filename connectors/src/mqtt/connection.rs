//! A connection to a broker: packets one behind the other, and an end that writes for all who do.

use tokio::time::Instant;

use super::packet::{BYE, Hello, Packet, connect, connect_for_limits, parse, parse_limits};
use crate::dial::Wire;
use crate::ends::{ANSWER_TIME_MAX, Incoming, Refused, Writer, ends, unanswered};

pub struct Connection {
    pub incoming: Incoming,
    pub writer: Writer,
}

impl Connection {
    pub async fn over(wire: Box<dyn Wire>, hello: &Hello<'_>) -> Result<(Connection, bool), Refused> {
        let (incoming, writer) = ends(wire, "the broker");
        let mut connection = Connection { incoming, writer };
        connection.writer.send(&connect(hello)).await?;
        match connection.packet(Instant::now() + ANSWER_TIME_MAX).await? {
            Some(Packet::Connected { kept, code: 0 }) => Ok((connection, kept)),
            Some(Packet::Connected { code, .. }) => Err(refused(code)),
            Some(_) => Err(Refused::Passing("the broker does not speak the protocol of MQTT 3.1.1".to_owned())),
            None => Err(Refused::Passing(unanswered())),
        }
    }

    /// How many bytes a packet may have, where the broker says so. It does that in version 5, on a connection that is for nothing
    /// else.
    pub async fn packet_bytes_max(wire: Box<dyn Wire>, hello: &Hello<'_>) -> Result<Option<usize>, String> {
        let (mut incoming, writer) = ends(wire, "the broker");
        writer.send(&connect_for_limits(hello)).await?;
        let said = incoming.next(Instant::now() + ANSWER_TIME_MAX, parse_limits).await?;
        // It is over anyway.
        let _ = writer.send(&BYE).await;
        said.ok_or_else(unanswered)
    }

    /// The next packet; none when the time is over, and then what has come of it stays.
    pub async fn packet(&mut self, deadline: Instant) -> Result<Option<Packet>, String> {
        self.incoming.next(deadline, parse).await
    }
}

fn refused(code: u8) -> Refused {
    match code {
        1 => Refused::ForGood("the broker does not know MQTT 3.1.1".to_owned()),
        2 => Refused::ForGood("the broker does not take this clientId".to_owned()),
        3 => Refused::Passing("the broker is not available".to_owned()),
        // Somebody may be about to set that right.
        _ => Refused::Passing(format!("the login is refused ({code})")),
    }
}
