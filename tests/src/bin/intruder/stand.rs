//! One sandbox's own bait, for an intruder in another.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Opens a file, sockets and a port, says the words for `sights` on one line, and waits.
pub(super) fn wait(marker: &str) {
    let bait = || -> std::io::Result<_> {
        let (file, socket) = ("/tmp/stand-file", "/tmp/stand-socket");
        std::fs::write(file, marker)?;
        let path = UnixListener::bind(socket)?;
        let name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(marker)?)?;
        let port = TcpListener::bind("127.0.0.1:0")?;
        println!(
            "marker={marker} file={file} socket={socket} abstract={marker} port={}",
            port.local_addr()?.port()
        );
        std::io::stdout().flush()?;
        Ok((path, name, port))
    };
    match bait() {
        Ok(_held) => {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        Err(_) => std::process::exit(1),
    }
}
