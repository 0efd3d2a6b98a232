//! memcached: what load generators are measured against, what a router is put in front of, and a router itself.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use rustix::process::geteuid;

use super::{Peer, find, free_address, text, wait_for_listener};
use crate::Result;
use crate::memcache::{Ask, Memcache};
use crate::process::{Server, command_on, directory};

/// Starts one with one thread on a port of its own; its log is in `dir`.
pub(crate) fn start(dir: &Path) -> Result<(Server, SocketAddr)> {
    start_program(&find("memcached", "memcached")?, dir, None, &[])
}

/// The same as something to be loaded itself, on this core.
pub(crate) fn start_bare(below: &Path, core: Option<usize>) -> Result<Peer> {
    let dir = directory(below)?;
    let (server, address) = start_program(&find("memcached", "memcached")?, dir.path(), core, &[])?;
    let protocol = Box::new(|number| Box::new(Memcache::new(Ask::Get(1), number)) as _);
    Ok(Peer { name: "memcached alone".into(), server, address, protocol, _dir: dir })
}

/// What memcached's own proxy does with the servers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxying {
    /// They share the keys.
    Share,
    /// Every key is on each: a set goes to all and is answered when all have answered, a get to one.
    Replicate,
}

/// memcached's own proxy (a memcached built with it) in front of these servers.
pub(crate) fn start_proxy(
    program: &Path,
    below: &Path,
    core: Option<usize>,
    servers: &[SocketAddr],
    proxying: Proxying,
) -> Result<Peer> {
    let dir = directory(below)?;
    let routes = dir.path().join("routes.lua");
    fs::write(&routes, lua(servers, proxying))?;
    let option = format!("proxy_config={}", text(&routes)?);
    let (server, address) = start_program(program, dir.path(), core, &["-o", &option])?;
    let protocol = Box::new(|number| Box::new(Memcache::new(Ask::Get(1), number)) as _);
    Ok(Peer { name: "memcached's proxy".into(), server, address, protocol, _dir: dir })
}

fn start_program(
    program: &Path,
    dir: &Path,
    core: Option<usize>,
    arguments: &[&str],
) -> Result<(Server, SocketAddr)> {
    let address = free_address()?;
    let mut memcached = command_on(core, program);
    memcached.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string(), "-U", "0"]);
    memcached.args(["-t", "1", "-c", "16384", "-m", "256"]).args(arguments);
    if geteuid().is_root() {
        // It refuses to run as root unless told so.
        memcached.args(["-u", "root"]);
    }
    let mut server = Server::spawn("memcached", memcached, dir)?;
    wait_for_listener(&mut server, address)?;
    Ok((server, address))
}

/// The proxy's configuration, which is a program: the least that does what is wanted.
fn lua(servers: &[SocketAddr], proxying: Proxying) -> String {
    let mut backends = String::new();
    for (number, server) in servers.iter().enumerate() {
        // Writing to memory does not fail.
        let _ = writeln!(backends, "    mcp.backend('s{number}', '{}', {}),", server.ip(), server.port());
    }
    let routes = match proxying {
        Proxying::Share => "  mcp.attach(mcp.CMD_ANY_STORAGE, to_owner(pools))",
        Proxying::Replicate => {
            "  mcp.attach(mcp.CMD_ANY_STORAGE, to_owner(pools))\n  mcp.attach(mcp.CMD_SET, to_all(pools))"
        }
    };
    format!(
        "function mcp_config_pools()
  local servers = {{
{backends}  }}
  local each = {{}}
  for i, server in ipairs(servers) do each[i] = mcp.pool({{ server }}) end
  return {{ shared = mcp.pool(servers), each = each }}
end

function to_owner(pools)
  local route = mcp.funcgen_new()
  local owner = route:new_handle(pools.shared)
  route:ready({{ f = function(rctx)
    return function(request) return rctx:enqueue_and_wait(request, owner) end
  end }})
  return route
end

function to_all(pools)
  local route, all = mcp.funcgen_new(), {{}}
  for i, pool in ipairs(pools.each) do all[i] = route:new_handle(pool) end
  route:ready({{ f = function(rctx)
    return function(request)
      rctx:enqueue(request, all)
      rctx:wait_cond(#all, mcp.WAIT_ANY)
      local last
      for _, one in ipairs(all) do
        local result, mode = rctx:result(one)
        last = result
        if mode == mcp.RES_ANY then break end
      end
      return last
    end
  end }})
  return route
end

function mcp_config_routes(pools)
{routes}
end
"
    )
}
