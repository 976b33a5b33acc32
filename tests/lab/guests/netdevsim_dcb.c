// Copyright (c) 2026 The rdma.fabric contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
// Gives ports of netdevsim operations for DCB, which it has none of. They only remember shares, PFC and who speaks DCBX,
// of one port at a time; applications (the DSCPs) are the kernel's own table, as with every driver.

#include <linux/netdevice.h>
#include <net/dcbnl.h>

int nsim_register_with_dcb(struct net_device *dev);

static struct ieee_ets shares;
static struct ieee_pfc flow_control;
static u8 dcbx;

static int nsim_getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = shares;
	return 0;
}

static int nsim_setets(struct net_device *dev, struct ieee_ets *ets)
{
	u8 capacity = shares.ets_cap;

	shares = *ets;
	shares.ets_cap = capacity;
	return 0;
}

static int nsim_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = flow_control;
	return 0;
}

static int nsim_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	flow_control.pfc_en = pfc->pfc_en;
	flow_control.delay = pfc->delay;
	return 0;
}

static u8 nsim_getdcbx(struct net_device *dev)
{
	return dcbx;
}

static u8 nsim_setdcbx(struct net_device *dev, u8 mode)
{
	dcbx = mode;
	return 0;
}

static const struct dcbnl_rtnl_ops nsim_dcb = {
	.ieee_getets = nsim_getets,
	.ieee_setets = nsim_setets,
	.ieee_getpfc = nsim_getpfc,
	.ieee_setpfc = nsim_setpfc,
	.getdcbx = nsim_getdcbx,
	.setdcbx = nsim_setdcbx,
};

int nsim_register_with_dcb(struct net_device *dev)
{
	shares = (struct ieee_ets) { .ets_cap = IEEE_8021QAZ_MAX_TCS };
	flow_control = (struct ieee_pfc) { .pfc_cap = IEEE_8021QAZ_MAX_TCS };
	dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;
	dev->dcbnl_ops = &nsim_dcb;
	return register_netdevice(dev);
}
