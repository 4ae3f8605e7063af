//! Connections that stay, where nothing need come for hours.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// When nothing has come for this long, the other side is asked for a sign of life, and again after as long.
pub const LIFE_INTERVAL: Duration = Duration::from_secs(10);

/// Asked this often without an answer, the other side is gone.
pub const LIFE_TRIES_MAX: u32 = 2;

/// A connection whose other side has gone without a word is over in half a minute.
pub fn ask_for_life(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, LIFE_INTERVAL)?;
    sockopt::set_tcp_keepintvl(stream, LIFE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(stream, LIFE_TRIES_MAX)?)
}
