package dbusclient

import "github.com/unitward/unitward/dbusclient/dbus"

// follow asks for the signals of one unit.
func follow(l *link, path dbus.ObjectPath, name string) {
	if l.addr.bus { // a private socket sends everything
		l.match(matchUnit(path))
		l.match(matchJobs(name))
	}
}

// widen asks for the signals of all units.
func widen(l *link) {
	if l.addr.bus {
		l.match(matchUnits)
		l.match(matchAllJobs)
	}
}

// narrow takes that back.
func narrow(l *link) {
	l.tell(busName, busPath, busName+".RemoveMatch", matchUnits)
	l.tell(busName, busPath, busName+".RemoveMatch", matchAllJobs)
}

const (
	matchUnits   = "type='signal',sender='" + sdName + "',interface='" + propsIfc + "',member='PropertiesChanged',path_namespace='" + string(sdPath) + "/unit'"
	matchAllJobs = "type='signal',sender='" + sdName + "',interface='" + sdMgr + "',member='JobRemoved',path='" + string(sdPath) + "'"
)

// A match rule does not escape quotes. Neither an escaped object path nor a
// checked unit name has any.
func matchUnit(path dbus.ObjectPath) string {
	return "type='signal',sender='" + sdName + "',interface='" + propsIfc + "',member='PropertiesChanged',path='" + string(path) + "'"
}

func matchJobs(name string) string {
	return "type='signal',sender='" + sdName + "',interface='" + sdMgr + "',member='JobRemoved',path='" + string(sdPath) + "',arg2='" + name + "'"
}
