package property

import "strings"

// sandboxTable has the settings of systemd.exec(5) that decide what a service
// may see and do.
var sandboxTable = [...]entry{
	{"AmbientCapabilities", &capabilitySyntax, 0},
	{"AppArmorProfile", &labelSyntax, 0},
	{"BPFDelegateAttachments", &textSyntax, 258},
	{"BPFDelegateCommands", &textSyntax, 258},
	{"BPFDelegateMaps", &textSyntax, 258},
	{"BPFDelegatePrograms", &textSyntax, 258},
	{"BindLogSockets", &booleanSyntax, 257},
	{"BindPaths", &bindPathsSyntax, 0},
	{"BindReadOnlyPaths", &bindPathsSyntax, 0},
	{"CapabilityBoundingSet", &capabilitySyntax, 0},
	{"DelegateNamespaces", &namespacesSyntax, 258},
	{"DynamicUser", &booleanSyntax, 0},
	{"ExecPaths", &pathsSyntax, 248},
	{"ExtensionDirectories", &pathsSyntax, 251},
	{"ExtensionImagePolicy", &textSyntax, 254},
	{"ExtensionImages", &extensionImagesSyntax, 248},
	{"IPCNamespacePath", &pathSyntax, 248},
	{"InaccessibleDirectories", &pathsSyntax, 0},
	{"InaccessiblePaths", &pathsSyntax, 0},
	{"LockPersonality", &booleanSyntax, 0},
	{"MemoryDenyWriteExecute", &booleanSyntax, 0},
	{"MountAPIVFS", &booleanSyntax, 0},
	{"MountFlags", &mountFlagsSyntax, 0},
	{"MountImagePolicy", &textSyntax, 254},
	{"MountImages", &mountImagesSyntax, 0},
	{"NetworkNamespacePath", &pathSyntax, 0},
	{"NoExecPaths", &pathsSyntax, 248},
	{"NoNewPrivileges", &booleanSyntax, 0},
	{"PrivateBPF", &booleanTextSyntax, 258},
	{"PrivateDevices", &booleanSyntax, 0},
	{"PrivateIPC", &booleanSyntax, 248},
	{"PrivateMounts", &booleanSyntax, 0},
	{"PrivateNetwork", &booleanSyntax, 0},
	{"PrivatePIDs", &booleanTextSyntax, 257},
	{"PrivateTmp", &privateTmpSyntax, 0},
	{"PrivateTmpEx", &privateTmpSyntax, 0},
	{"PrivateUsers", &privateUsersSyntax, 0},
	{"PrivateUsersEx", &privateUsersSyntax, 0},
	{"ProcSubset", &procSubsetSyntax, 0},
	{"ProtectClock", &booleanSyntax, 0},
	{"ProtectControlGroups", &protectControlGroupsSyntax, 0},
	{"ProtectControlGroupsEx", &protectControlGroupsSyntax, 0},
	{"ProtectHome", &protectHomeSyntax, 0},
	{"ProtectHostname", &protectHostnameSyntax, 0},
	{"ProtectHostnameEx", &protectHostnameSyntax, 0},
	{"ProtectKernelLogs", &booleanSyntax, 0},
	{"ProtectKernelModules", &booleanSyntax, 0},
	{"ProtectKernelTunables", &booleanSyntax, 0},
	{"ProtectProc", &protectProcSyntax, 0},
	{"ProtectSystem", &protectSystemSyntax, 0},
	{"ReadOnlyDirectories", &pathsSyntax, 0},
	{"ReadOnlyPaths", &pathsSyntax, 0},
	{"ReadWriteDirectories", &pathsSyntax, 0},
	{"ReadWritePaths", &pathsSyntax, 0},
	{"RemoveIPC", &booleanSyntax, 0},
	{"RestrictAddressFamilies", &familiesSyntax, 0},
	{"RestrictFileSystems", &filterSyntax, 250},
	{"RestrictNamespaces", &namespacesSyntax, 0},
	{"RestrictNetworkInterfaces", &filterSyntax, 250},
	{"RestrictRealtime", &booleanSyntax, 0},
	{"RestrictSUIDSGID", &booleanSyntax, 0},
	{"RootDirectory", &pathSyntax, 0},
	{"RootEphemeral", &booleanSyntax, 254},
	{"RootHash", &rootHashSyntax, 0},
	{"RootHashSignature", &rootHashSignatureSyntax, 0},
	{"RootImage", &pathSyntax, 0},
	{"RootImageOptions", &imageOptionsSyntax, 0},
	{"RootImagePolicy", &textSyntax, 254},
	{"RootMStack", &pathSyntax, 260},
	{"RootVerity", &pathSyntax, 0},
	{"SELinuxContext", &textSyntax, 0},
	{"SecureBits", &secureBitsSyntax, 0},
	{"SmackProcessLabel", &labelSyntax, 0},
	{"SystemCallArchitectures", &wordsSyntax, 0},
	{"SystemCallErrorNumber", &errnoSyntax, 0},
	{"SystemCallFilter", &filterSyntax, 0},
	{"SystemCallLog", &filterSyntax, 0},
	{"TemporaryFileSystem", &temporaryFileSystemSyntax, 0},
	{"UserNamespacePath", &pathSyntax, 259},
}

var (
	procSubsetSyntax    = syntax{sig: "s", parse: parseChoice, words: "all pid"}
	protectHomeSyntax   = syntax{sig: "s", parse: parseChoice, words: "read-only tmpfs", boolean: true}
	protectProcSyntax   = syntax{sig: "s", parse: parseChoice, words: "default noaccess invisible ptraceable"}
	protectSystemSyntax = syntax{sig: "s", parse: parseChoice, words: "full strict", boolean: true}
	booleanTextSyntax   = syntax{sig: "s", parse: parseChoice, expected: "yes or no", boolean: true}

	// Booleans that 257 gave more values.
	privateTmpSyntax           = syntax{sig: "b|s", parse: parseBooleanEx, words: "disconnected@257", boolean: true}
	privateUsersSyntax         = syntax{sig: "b|s", parse: parseBooleanEx, words: "self@257 identity@257 full@258 managed@260", boolean: true}
	protectControlGroupsSyntax = syntax{sig: "b|s", parse: parseBooleanEx, words: "private@257 strict@257", boolean: true}
)

var protectHostnameSyntax = syntax{sig: "b|(ss)", parse: parseProtectHostname, later: protectHostnameSince, expected: "yes, no, private, or yes:NAME or private:NAME"}

// protectHostnameSince: 258 added all but a boolean, under another name.
func protectHostnameSince(value string) int {
	if _, ok := Boolean(value); ok {
		return 0
	}
	return 258
}

func parseProtectHostname(_ *syntax, name, value string) ([]Property, bool) {
	name = strings.TrimSuffix(name, "Ex")
	if b, ok := Boolean(value); ok {
		return one(name, b), true
	}
	kind, host, named := strings.Cut(value, ":")
	if b, ok := Boolean(kind); ok {
		kind = yesNo(b)
	}
	ok := kind == "private" || named && kind == "yes"
	return one(name+"Ex", textPair{kind, host}), ok && named == (host != "")
}
