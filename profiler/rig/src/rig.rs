//! Runs jobs together under one clock; members come and go.
//!
//! A rig with one member measures a job alone, a rig with several measures a group, and a rig whose members come and go is a
//! testbed. All use the same code, so that their numbers can be compared. All child processes belong to one supervisor thread
//! that outlives them. The caller receives a stream of events, and a slow caller delays no heartbeat.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{getpid, set_child_subreaper};
use schema::{units::Nanos, wire::Command};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
};

use crate::{
    descriptors,
    event::{Member, RigEvent},
    launch::{LaunchRequest, Order, Programs, StopMode, supervise},
};

/// Dropping a rig ends all launches and waits for their ends.
pub struct Rig {
    /// Absent only while being dropped: closing it is what ends the supervisor.
    launches: Option<UnboundedSender<NewLaunch>>,
    /// To each member whose end was not given out yet.
    orders: HashMap<Member, UnboundedSender<Order>>,
    events: mpsc::Receiver<Vec<RigEvent>>,
    /// Events that arrived together with one that was returned.
    inbox: VecDeque<RigEvent>,
    supervisor: Option<JoinHandle<()>>,
    added: u32,
}

/// A launch on its way to the supervisor, with the orders that it will obey.
struct NewLaunch {
    member: Member,
    request: LaunchRequest,
    orders: UnboundedReceiver<Order>,
}

impl Rig {
    /// Starts the supervisor thread, without launches.
    ///
    /// Makes this process a subreaper, so that it becomes the parent of a killed leash's orphans, and raises its limit of open
    /// files.
    pub fn new(programs: Programs) -> io::Result<Rig> {
        set_child_subreaper(Some(getpid()))?;
        descriptors::raise();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (launches, from_caller) = unbounded_channel();
        let (to_caller, events) = mpsc::channel();
        let supervisor = thread::Builder::new().name("supervisor".into()).spawn(move || {
            runtime.block_on(run(Arc::new(programs), from_caller, to_caller));
        })?;
        Ok(Rig {
            launches: Some(launches),
            orders: HashMap::new(),
            events,
            inbox: VecDeque::new(),
            supervisor: Some(supervisor),
            added: 0,
        })
    }

    /// Starts a launch without a grant. Any error is reported by its [`RigEvent::Ended`].
    pub fn add(&mut self, request: LaunchRequest) -> Member {
        let member = Member(self.added);
        self.added += 1;
        let (sender, orders) = unbounded_channel();
        self.orders.insert(member, sender);
        let launches = self.launches.as_ref().expect("present until dropped");
        let sent = launches.send(NewLaunch { member, request, orders });
        sent.unwrap_or_else(|_| panic!("the supervisor stays for as long as the rig"));
        member
    }

    /// Lets a member complete `steps` steps in total. A grant only grows: a smaller one has no effect.
    pub fn extend(&self, member: Member, steps: u64) {
        self.order(member, Order::Extend(steps));
    }

    /// Sets the interval between reads of the events of a member that trains, for a measurement of the cost of these reads.
    pub fn look_every(&self, member: Member, pause: Duration) {
        self.order(member, Order::LookEvery(pause));
    }

    /// Sends a command to every rank of a member when all of them are at rest. Commands are answered in the order in which they
    /// were given.
    pub fn command(&self, member: Member, command: Command) {
        self.order(member, Order::Tell(command));
    }

    /// Orders a program that defines a checkpoint to save when it rests. The program is granted the steps that the save needs.
    pub fn save(&self, member: Member) {
        self.order(member, Order::Save);
    }

    /// Stops all processes of a member by SIGSTOP, wherever they are. For a program that obeys no grant.
    pub fn freeze(&self, member: Member) {
        self.order(member, Order::Freeze);
    }

    /// Lets the processes of a frozen member go on.
    pub fn thaw(&self, member: Member) {
        self.order(member, Order::Thaw);
    }

    /// Makes a member leave. A member that leaves at a boundary leaves at the end of its grant, so one whose grant it can never
    /// use up does not leave.
    pub fn remove(&self, member: Member, leave: StopMode) {
        self.order(member, Order::Stop(leave));
    }

    /// Makes a member leave at once because the launch `by` of its group failed, and records this in its own end.
    pub fn contaminate(&self, member: Member, by: &str) {
        self.order(member, Order::Contaminate { by: by.into() });
    }

    /// Waits for the next event until `deadline`. Without a deadline it returns `None` only if there can be no more events.
    pub fn next(&mut self, deadline: Option<Nanos>) -> Option<RigEvent> {
        if self.inbox.is_empty() {
            let events = match deadline {
                Some(deadline) => {
                    let left = deadline.saturating_sub(Nanos::monotonic_now());
                    self.events.recv_timeout(left.as_duration()).ok()?
                }
                None if self.orders.is_empty() => return None,
                None => self.events.recv().expect("the supervisor reports the end of each member"),
            };
            self.inbox.extend(events);
        }
        let event = self.inbox.pop_front()?;
        if let RigEvent::Ended { member, .. } = &event {
            self.orders.remove(member);
        }
        Some(event)
    }

    /// A member that has ended meanwhile needs no orders any more.
    fn order(&self, member: Member, order: Order) {
        let _ = self.orders.get(&member).map(|launch| launch.send(order));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.orders.keys().for_each(|member| self.remove(*member, StopMode::Immediately));
        self.launches = None;
        let supervisor = self.supervisor.take().expect("taken only here");
        if supervisor.join().is_err() && !thread::panicking() {
            panic!("the supervisor panicked");
        }
    }
}

/// The supervisor: passes orders to the members' launches until the caller drops the rig and all launches have ended.
async fn run(
    programs: Arc<Programs>,
    mut launches: UnboundedReceiver<NewLaunch>,
    events: mpsc::Sender<Vec<RigEvent>>,
) {
    let mut running = JoinSet::new();
    let mut open = true;
    while open || !running.is_empty() {
        tokio::select! {
            launch = launches.recv(), if open => match launch {
                Some(launch) => drop(running.spawn(follow(programs.clone(), launch, events.clone()))),
                None => open = false,
            },
            Some(ended) = running.join_next() => {
                ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
            }
        }
    }
}

async fn follow(programs: Arc<Programs>, launch: NewLaunch, events: mpsc::Sender<Vec<RigEvent>>) {
    let NewLaunch { member, request, orders } = launch;
    let name = request.spec.launch.clone();
    // A rig that is being dropped has no receiver any more.
    let send = |reports| drop(events.send(reports));
    let end = supervise(programs, member, request, orders, send).await;
    let _ = events.send(vec![RigEvent::Ended { member, launch: name, end }]);
}
