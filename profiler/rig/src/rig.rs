//! Runs jobs together under one clock; members come and go.
//!
//! A rig of one measures a job alone, a rig of several measures a group, and a rig whose members
//! come and go is a testbed: one piece of code, so that their numbers can be compared. All child
//! processes belong to one supervisor thread that outlives them. The caller sees a stream of events,
//! so however slow it is, no heartbeat is late.

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
    event::{Member, RigEvent},
    launch::{LaunchRequest, Leave, Order, Programs, supervise},
};

/// Ends all that runs, and waits for it, when dropped.
pub struct Rig {
    /// Absent only while being dropped: closing it is what ends the supervisor.
    launches: Option<UnboundedSender<NewLaunch>>,
    /// To each member whose end was not given out yet.
    orders: HashMap<Member, UnboundedSender<Order>>,
    events: mpsc::Receiver<Vec<RigEvent>>,
    /// Came together with an event that was given out.
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
    /// Starts the supervisor thread, with nothing on the rig.
    ///
    /// Makes this process a subreaper, so that orphans of a leash that somebody killed come to us.
    pub fn new(programs: Programs) -> io::Result<Rig> {
        set_child_subreaper(Some(getpid()))?;
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

    /// Starts a launch with nothing granted. Whatever goes wrong comes as its [`RigEvent::Ended`].
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

    /// Lets a member complete `steps` steps in all. A grant only grows: a smaller one changes nothing.
    pub fn extend(&self, member: Member, steps: u64) {
        self.order(member, Order::Extend(steps));
    }

    /// Sets the interval between looks at the events of a member that trains: for a harness
    /// that measures what its own looking costs.
    pub fn look_every(&self, member: Member, pause: Duration) {
        self.order(member, Order::LookEvery(pause));
    }

    /// Tells every rank of a member something as soon as all of them are at rest. Commands are
    /// answered in the order they were given.
    pub fn command(&self, member: Member, command: Command) {
        self.order(member, Order::Tell(command));
    }

    /// Makes a member leave. At a boundary means where its grant ends, so one that was granted
    /// more than it can ever do does not leave.
    pub fn remove(&self, member: Member, leave: Leave) {
        self.order(member, Order::Leave(leave));
    }

    /// Makes a member leave at once because another one of its group failed, the launch `by`: its own end says so.
    pub fn contaminate(&self, member: Member, by: &str) {
        self.order(member, Order::Contaminate { by: by.into() });
    }

    /// Waits for the next event, at most to `deadline`. Without a deadline it returns nothing only
    /// where nothing is left that could happen.
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
        self.orders.keys().for_each(|member| self.remove(*member, Leave::Now));
        self.launches = None;
        let supervisor = self.supervisor.take().expect("taken only here");
        if supervisor.join().is_err() && !thread::panicking() {
            panic!("the supervisor panicked");
        }
    }
}

/// The supervisor: runs launches until the caller lets go and all have ended.
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
